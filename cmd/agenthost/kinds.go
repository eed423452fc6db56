package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agenthost/internal/auth"
	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/httptool"
	"agenthost/wing/a2aagent"
	"agenthost/wing/a2aserver"
	"agenthost/wing/acpserver"
	"agenthost/wing/acpserver/acpcommand"
	"agenthost/wing/adk/adkcommand"
	"agenthost/wing/aguiserver"
	"agenthost/wing/anthropic"
	"agenthost/wing/apptest"
	"agenthost/wing/apptest/testcommand"
	"agenthost/wing/apptest/testweb"
	"agenthost/wing/bucketstore"
	"agenthost/wing/chatpage"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/oauthweb"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalcommand"
	"agenthost/wing/evaluation/evalgate"
	"agenthost/wing/evaluation/evalweb"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
	"agenthost/wing/live/liveweb"
	"agenthost/wing/mcpserver"
	"agenthost/wing/mcpserver/mcpcommand"
	"agenthost/wing/mcptool"
	"agenthost/wing/ollama"
	"agenthost/wing/openai"
	"agenthost/wing/openaiserver"
	"agenthost/wing/openapitool"
	"agenthost/wing/operator"
	"agenthost/wing/outcomes"
	"agenthost/wing/outcomes/outcomescommand"
	"agenthost/wing/programs"
	"agenthost/wing/replay"
	"agenthost/wing/replay/replaycommand"
	"agenthost/wing/revisions"
	"agenthost/wing/rollout"
	"agenthost/wing/rollout/rolloutcommand"
	"agenthost/wing/skills"
	"agenthost/wing/vertex/vertexstore"
	"agenthost/wing/vertex/vertextool"
	"agenthost/wing/wasi"
	"agenthost/wing/why"
)

// listKinds returns all that documents may name.
func listKinds() loader.Kinds {
	evals := &evalgate.Kind{}
	return loader.Kinds{
		Models: listModelKinds(),
		Tools: slices.Concat(
			programs.Kinds(), builtin.Kinds(), httptool.Kinds(), skills.Kinds(), mcptool.Kinds(), openapitool.Kinds(),
		),
		Builtins: slices.Concat(
			slices.Concat(builtin.Builtins(), httptool.Builtins(), programs.Builtins(), skills.Builtins(), vertextool.Builtins()).SortByName(),
			mcptool.Toolsets[connections.ADKAuth](), openapitool.Toolsets[connections.ADKAuth](connections.Google{}),
		),
		Agents:      slices.Concat(loader.AgentKinds(), a2aagent.Kinds()),
		AgentTools:  loader.AgentToolKinds(),
		Connections: connections.NewKind(nil),
		Plugins:     loader.PluginKinds(),
		Sections:    spec.Kinds[loader.SectionEnv, any]{a2aserver.Section(), acpserver.Section(), aguiserver.Section(), chatpage.Section(), mcpserver.Section(), openaiserver.Section(), replay.Section(), rollout.Section()},
		Executors:   slices.Concat(wasi.Executors(), programs.Executors()),
		Programs:    programs.Opener(programs.DefaultHelper()),
		Live:        live.Driver{},
		Files:       []loader.FileKind{apptest.Files(), evals.Files(), loader.PolicyFiles(), authFiles()},
		Gates:       []loader.Gate{apptest.Gate(), evals.Gate(), replay.Gate()},
		Evaluator:   openEvaluator,
	}
}

// newLoader returns a loader with this program's kinds; options may be nil.
func newLoader(opts *loader.Options) *loader.Loader {
	return command.Env{Kinds: listKinds()}.NewLoader(opts)
}

// wingCommands returns the wings' commands.
func wingCommands(env command.Env) []*cobra.Command {
	return slices.Concat(
		testcommand.Commands(env),
		evalcommand.Commands(env),
		adkcommand.Commands(env),
		outcomescommand.Commands(env),
		mcpcommand.Commands(env),
		acpcommand.Commands(env, &editorAuthorizer{}),
		rolloutcommand.Commands(env),
		replaycommand.Commands(env, saveReplayCases),
	)
}

// authFiles returns the file kind that lists a server's callers.
func authFiles() loader.FileKind {
	return loader.FileKind{
		Name: "auth", Matches: func(file string) bool { return filepath.Base(file) == "auth.yaml" }, Schema: auth.Schema,
		Title: "Callers", About: "The file of `--auth`, or `auth:` in the file of `--config`; see [security.md](security.md).",
		Reference: func() []string { return []string{auth.Reference()} },
	}
}

// storeSchemes returns the schemes of store URLs besides memory: and dir:.
func storeSchemes() []storeurl.Scheme {
	return slices.Concat(databaseEngines().Schemes(), vertexstore.Schemes(), bucketstore.Schemes())
}

// databaseEngines returns the engines for session databases.
func databaseEngines() sqlstore.Engines {
	return sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}
}

// extensionOptions configure the wings with routes. Each may be nil.
type extensionOptions struct {
	talks  *liveweb.Options
	ui     *devui.Options
	evals  *evalweb.Options
	why    *why.Options
	tests  *testweb.Options
	grants *connections.Grants
	chats  *chatpage.Options
	stored *revisions.Options
	played *replay.Options
	mcps   *mcpserver.Options
	openai *openaiserver.Options
	agui   *aguiserver.Options
	peers  *a2aserver.Options
	watch  *operator.Options
	staged *rollout.Controller
}

// serverExtensions lists what adds routes to the server: live conversations, ADK's web client,
// evaluations, explanations, tests, answers from authorization servers, the chat page, outcomes,
// revisions, replays, MCP servers, OpenAI's API, A2A, AG-UI, ACP, operations, and rollouts.
func serverExtensions(o extensionOptions) []func(*server.Services) *server.Extension {
	return []func(*server.Services) *server.Extension{
		liveweb.Extend(o.talks), devui.Extend(o.ui), evalweb.Extend(o.evals), why.Extend(o.why), testweb.Extend(o.tests), oauthweb.Extend(o.grants), chatpage.Extend(o.chats), outcomes.Extend(), revisions.Extend(o.stored), replay.Extend(o.played), mcpserver.Extend(o.mcps), openaiserver.Extend(o.openai), a2aserver.Extend(o.peers), aguiserver.Extend(o.agui), acpserver.Extend(), operator.Extend(o.watch), rollout.Extend(o.staged),
	}
}

// listModelKinds lists the model providers, in the reference's order.
func listModelKinds() spec.Kinds[provider.Env, model.LLM] {
	return slices.Concat(
		spec.Kinds[provider.Env, model.LLM]{gemini.Kind(), anthropic.Kind(), gemini.VertexKind(anthropic.OnVertex)},
		openai.Kinds(), ollama.Kinds(),
		spec.Kinds[provider.Env, model.LLM]{provider.RouteKind(), gemini.ApigeeKind(openai.OnApigee), provider.ScriptedKind()},
	)
}

// openEvaluator opens Vertex AI's evaluation service.
func openEvaluator(ctx context.Context, env provider.Env) (loader.HostedEvaluator, error) {
	service, err := gemini.OpenVertexEvaluator(ctx, env)
	if service == nil {
		return nil, err
	}
	return service, err
}
