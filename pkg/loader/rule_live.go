package loader

import (
	"path"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// checkLive warns about settings for live conversations that have no effect: the mode in an app
// whose root cannot hold one, and calls that the model need not wait for with a model that does. It
// rejects support_cfc with models that have no live API.
func checkLive(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	class := app.root.plan.Kind.Name
	c := app.doc.runConfig()
	bidi := c != nil && c.StreamingMode == runtime.StreamingBidi
	if bidi && !slices.Contains([]string{"LlmAgent", "SequentialAgent"}, class) {
		ds = append(ds, app.doc.RunConfig.node.Get("streaming_mode").Warnf("live",
			"agent %s of the class %s cannot hold live conversations, so bidi means sse", app.root.name, class).
			WithHint("make the root an LlmAgent that calls it as a tool"))
	}
	var below func(p *resolvedAgent, inherited model.LLM)
	below = func(p *resolvedAgent, inherited model.LLM) {
		if p.model != nil {
			inherited = p.model
		}
		if inherited != nil && waitsForCalls(inherited.Name()) {
			ds = append(ds, checkAsyncTools(p, inherited.Name())...)
		}
		if bidi && isDelegate(p) {
			ds = append(ds, p.plan.Node.Get("mode").Warnf("live", "live conversations do not run agent %s, which has the mode %s", p.name, agentMode(p)).
				WithHint("call it as a tool with agent instead"))
		}
		ds = append(ds, checkCFC(app, p, inherited)...)
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, nil)
	return mergeByPlace(ds)
}

// checkCFC rejects support_cfc for an agent whose model has no live API.
func checkCFC(app *appModel, p *resolvedAgent, llm model.LLM) spec.Diagnostics {
	c := app.doc.runConfig()
	if c == nil || !c.SupportCFC || p.plan.Kind.Name != "LlmAgent" || llm == nil || model.LiveOf(llm) != nil {
		return nil
	}
	return spec.Diagnostics{app.doc.RunConfig.node.Get("support_cfc").Errorf("live", runtime.NeedsLiveAPI, llm.Name(), p.name).
		WithHint("use a live model of Gemini, such as gemini-3.8-live with response_modalities: [AUDIO], or remove support_cfc")}
}

// waitsForCalls reports whether a live model waits for the response to each call (Gemini Live
// API, gemini-3.1-flash-live-preview).
func waitsForCalls(name string) bool {
	name = path.Base(name)
	return strings.HasPrefix(name, "gemini-3.1-") && strings.Contains(name, "-live")
}

func checkAsyncTools(p *resolvedAgent, name string) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, t := range p.tools {
		for _, key := range []string{"response_scheduling", "stream"} {
			if at := t.node.Get(key); at != nil {
				ds = append(ds, at.Warnf("live", "model %s waits for the response to each call: %s may have no effect", path.Base(name), key).
					WithHint("use another live model, such as gemini-live-2.5-flash-native-audio"))
			}
		}
	}
	return ds
}
