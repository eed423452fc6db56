// Package openaiserver serves apps to OpenAI's clients, below /v1 and /apps/{app}/v1: each
// app, and each agent that it offers, is a model.
//
// Chat completions have no sessions: a client sends the whole conversation with each message. The
// host finds a conversation's session by its messages, or by a header with its ID, and
// runs the last message only. So state, tools, approvals and budgets are the same for every client.
package openaiserver

import (
	"net/http"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
)

// Options configure the wing. The zero value is valid: it serves the apps that have openai_server
// in app.yaml.
type Options struct {
	// All serves every app, with its defaults.
	All bool
	// User is the user on a host without authentication whose request names none; the default is
	// user, as on the page.
	User string
}

const localUser = "user"

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts Options
	// tasks are the responses in the background.
	tasks *task.Tasks
	// live are those that run here.
	live *liveTurns
}

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{s, *opts, task.New(s), newLiveTurns()}
		if h.opts.User == "" {
			h.opts.User = localUser
		}
		return &server.Extension{DescribeProtocol: h.describeProtocol, Routes: h.listRoutes()}
	}
}

func (h *handlers) listRoutes() []server.Route {
	const one = "/conversations/{conversation}"
	var all []server.Route
	for _, door := range []struct{ prefix, id, of string }{{"/v1", "", "every app"}, {"/apps/{app}/v1", "App", "one app"}} {
		add := func(method, path, id, summary, body, answer string, handle server.Handler) {
			all = append(all, server.Route{
				Method: method, Pattern: door.prefix + path, Access: server.AccessHandler, Handler: h.inForm(handle),
				Doc: server.Doc{Tag: "openai", ID: id + door.id, Summary: summary + " of " + door.of + ", as OpenAI's API", Body: body, Answer: answer},
			})
		}
		add(http.MethodGet, "/models", "listModels", "List the models", "", "AnyObject", h.handleModels)
		add(http.MethodGet, "/models/{model...}", "getModel", "Get a model", "", "AnyObject", h.handleModel)
		add(http.MethodPost, "/responses", "createResponse", "Answer an input with a model", "AnyObject", "AnyObject", h.handleResponses)
		add(http.MethodGet, "/responses/{response}", "getResponse", "Get a response", "", "AnyObject", h.handleStoredResponse)
		add(http.MethodDelete, "/responses/{response}", "deleteResponse", "Delete a response", "", "AnyObject", h.handleDeletedResponse)
		add(http.MethodGet, "/responses/{response}/input_items", "listInputItems", "List the items that a response answers", "", "AnyObject", h.handleInputItems)
		add(http.MethodPost, "/responses/{response}/cancel", "cancelResponse", "Cancel a response", "", "AnyObject", h.handleCancel)
		add(http.MethodPost, "/conversations", "createModelConversation", "Create a conversation", "AnyObject", "AnyObject", h.handleNewConversation)
		add(http.MethodGet, one, "getModelConversation", "Get a conversation", "", "AnyObject", h.handleConversation)
		add(http.MethodPost, one, "updateModelConversation", "Replace a conversation's metadata", "AnyObject", "AnyObject", h.handleChangedConversation)
		add(http.MethodDelete, one, "deleteModelConversation", "Delete a conversation", "", "AnyObject", h.handleDeletedConversation)
		add(http.MethodGet, one+"/items", "listConversationItems", "List a conversation's items", "", "AnyObject", h.handleItems)
		add(http.MethodPost, one+"/items", "createConversationItems", "Add items to a conversation", "AnyObject", "AnyObject", h.handleNewItems)
		add(http.MethodGet, one+"/items/{item}", "getConversationItem", "Get an item", "", "AnyObject", h.handleItem)
		add(http.MethodDelete, one+"/items/{item}", "deleteConversationItem", "Delete an item; not supported", "", "AnyObject", h.handleDeletedItem)
		add(http.MethodPost, "/chat/completions", "completeChat", "Answer a conversation with a model", "AnyObject", "AnyObject", h.handleCompletions)
	}
	return all
}
