package evalweb

import (
	"agenthost/pkg/server"
)

// evalRoutes are ADK's evaluation routes, and those for the page's Evaluations view.
func (s *handlers) evalRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Pattern: "/-/evals/{app}", Handler: s.handleEvalOverview, Doc: server.Doc{Tag: "server", ID: "getEvalOverview", Summary: "List the eval sets and results of an app", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/-/evals/{app}/sets/{file...}", Handler: s.handleEvalSetView, Doc: server.Doc{Tag: "server", ID: "getEvalSetView", Summary: "List the cases of an eval set by its file", Answer: "AnyObject"}},
		{Method: "POST", Pattern: "/-/evals/{app}/sets/{file...}", Handler: s.requireEvaluator(s.handleFollowEvalRun), Doc: server.Doc{Tag: "server", ID: "followEvalRun", Summary: "Run an eval set by its file, and stream the scores of its cases; requires --dev", Body: "AnyObject", Answer: "text/event-stream:AnyObject"}},
		{Method: "GET", Pattern: "/-/evals/{app}/results/{name}", Handler: s.handleEvalResultView, Doc: server.Doc{Tag: "server", ID: "getEvalResultView", Summary: "Get the scores of an eval result", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/-/evals/{app}/results/{name}/cases/{index}", Handler: s.handleEvalCaseResult, Doc: server.Doc{Tag: "server", ID: "getEvalCaseResult", Summary: "Get a case of an eval result with its conversation", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/metrics-info", Handler: s.handleEvalMetrics, Doc: server.Doc{Tag: "developer", ID: "listEvalMetrics", Summary: "List evaluation metrics", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval_sets", Handler: s.handleListEvalSets(""), Doc: server.Doc{Tag: "developer", ID: "listEvalSetsV1", Summary: "List the eval sets in the app's folder", Answer: "[string]"}},
		{Method: "GET", Pattern: "…/eval-sets", Handler: s.handleListEvalSets("evalSetIds"), Doc: server.Doc{Tag: "developer", ID: "listEvalSets", Summary: "List the eval sets in the app's folder", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval_sets/{name}", Handler: s.handleEvalSet, Doc: server.Doc{Tag: "developer", ID: "getEvalSetV1", Summary: "Get an eval set", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval-sets/{name}", Handler: s.handleEvalSet, Doc: server.Doc{Tag: "developer", ID: "getEvalSet", Summary: "Get an eval set", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval_sets/{name}/evals", Handler: s.handleEvalCases, Doc: server.Doc{Tag: "developer", ID: "listEvalCases", Summary: "List the cases of an eval set", Answer: "[string]"}},
		{Method: "GET", Pattern: "…/eval-sets/{name}/eval-cases", Handler: s.handleEvalCases, Doc: server.Doc{Tag: "developer", ID: "listEvalCasesV2", Summary: "List the cases of an eval set", Answer: "[string]"}},
		{Method: "GET", Pattern: "…/eval_sets/{name}/evals/{case}", Handler: s.handleEvalCase, Doc: server.Doc{Tag: "developer", ID: "getEvalCaseV1", Summary: "Get an eval case", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval-sets/{name}/eval-cases/{case}", Handler: s.handleEvalCase, Doc: server.Doc{Tag: "developer", ID: "getEvalCase", Summary: "Get an eval case", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval_results", Handler: s.handleListEvalResults(""), Doc: server.Doc{Tag: "developer", ID: "listEvalResultsV1", Summary: "List eval results", Answer: "[string]"}},
		{Method: "GET", Pattern: "…/eval-results", Handler: s.handleListEvalResults("evalResultIds"), Doc: server.Doc{Tag: "developer", ID: "listEvalResults", Summary: "List eval results", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval_results/{name}", Handler: s.handleEvalResult, Doc: server.Doc{Tag: "developer", ID: "getEvalResultV1", Summary: "Get an eval result", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/eval-results/{name}", Handler: s.handleEvalResult, Doc: server.Doc{Tag: "developer", ID: "getEvalResult", Summary: "Get an eval result", Answer: "AnyObject"}},
		{Method: "POST", Pattern: "…/eval-sets", Handler: s.requireEvalEdits(s.handleCreateEvalSet), Doc: server.Doc{Tag: "developer", ID: "createEvalSet", Summary: "Create an eval set; requires --dev", Body: "AnyObject", Answer: "AnyObject"}},
		{Method: "POST", Pattern: "…/eval_sets/{name}", Handler: s.requireEvalEdits(s.handleCreateNamedEvalSet), Doc: server.Doc{Tag: "developer", ID: "createEvalSetV1", Summary: "Create an empty eval set; requires --dev"}},
		{Method: "DELETE", Pattern: "…/eval-sets/{name}", Handler: s.requireEvalEdits(s.handleDeleteEvalSet), Doc: server.Doc{Tag: "developer", ID: "deleteEvalSet", Summary: "Delete an eval set; requires --dev"}},
		{Method: "DELETE", Pattern: "…/eval_sets/{name}", Handler: s.requireEvalEdits(s.handleDeleteEvalSet), Doc: server.Doc{Tag: "developer", ID: "deleteEvalSetV1", Summary: "Delete an eval set; requires --dev"}},
		{Method: "POST", Pattern: "…/eval-sets/{name}/add-session", Handler: s.requireEvalEdits(s.handleAddEvalSession), Doc: server.Doc{Tag: "developer", ID: "addEvalSession", Summary: "Add a session to an eval set as a case; requires --dev", Body: "AddEvalSessionRequest"}},
		{Method: "POST", Pattern: "…/eval_sets/{name}/add_session", Handler: s.requireEvalEdits(s.handleAddEvalSession), Doc: server.Doc{Tag: "developer", ID: "addEvalSessionV1", Summary: "Add a session to an eval set as a case; requires --dev", Body: "AddEvalSessionRequest"}},
		{Method: "PUT", Pattern: "…/eval-sets/{name}/eval-cases/{case}", Handler: s.requireEvalEdits(s.handleSaveEvalCase), Doc: server.Doc{Tag: "developer", ID: "saveEvalCase", Summary: "Change an eval case; requires --dev", Body: "AnyObject"}},
		{Method: "PUT", Pattern: "…/eval_sets/{name}/evals/{case}", Handler: s.requireEvalEdits(s.handleSaveEvalCase), Doc: server.Doc{Tag: "developer", ID: "saveEvalCaseV1", Summary: "Change an eval case; requires --dev", Body: "AnyObject"}},
		{Method: "DELETE", Pattern: "…/eval-sets/{name}/eval-cases/{case}", Handler: s.requireEvalEdits(s.handleDeleteEvalCase), Doc: server.Doc{Tag: "developer", ID: "deleteEvalCase", Summary: "Delete an eval case; requires --dev"}},
		{Method: "DELETE", Pattern: "…/eval_sets/{name}/evals/{case}", Handler: s.requireEvalEdits(s.handleDeleteEvalCase), Doc: server.Doc{Tag: "developer", ID: "deleteEvalCaseV1", Summary: "Delete an eval case; requires --dev"}},
		{Method: "POST", Pattern: "…/eval-sets/{name}/run", Handler: s.requireEvaluator(s.handleRunEvalSet), Doc: server.Doc{Tag: "developer", ID: "runEval", Summary: "Run cases of an eval set; requires --dev", Body: "RunEvalRequest", Answer: "RunEvalAnswer"}},
		{Method: "POST", Pattern: "…/eval_sets/{name}/run_eval", Handler: s.requireEvaluator(s.handleRunEval), Doc: server.Doc{Tag: "developer", ID: "runEvalV1", Summary: "Run cases of an eval set; requires --dev", Body: "RunEvalRequest", Answer: "[RunEvalResult]"}},
	}
}
