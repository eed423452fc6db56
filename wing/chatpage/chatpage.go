// Package chatpage serves a chat page for end users at /chat/{app}, and the routes that it reads.
//
// The routes are a door of their own, because ADK's API is for developers: its events have the
// arguments and results of tools, thoughts, and the session's state. A browser on this door
// receives messages, files, questions and a status, and names nothing but its own conversations:
// the user ID comes from the token or from the guest's secret, never from the request's path.
package chatpage

import (
	"context"
	_ "embed"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Options configure the page. The zero value is valid: it serves the page of the apps that have
// chat in app.yaml.
type Options struct {
	// All serves the page also for apps without chat, with its defaults.
	All bool
	// Off serves the page for no app.
	Off bool
}

// components are the parameters and schemas for the routes.
//
//go:embed components.yaml
var components []byte

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts Options

	mu sync.Mutex
	// running are this process's runs, by their session. stop cancels one.
	running map[session.Key][]*runningTurn
	// followers are the open follow streams by user, and following all of them.
	followers map[string]int
	following int
}

// A runningTurn is a run that a stop request can cancel.
type runningTurn struct {
	cancel  context.CancelFunc
	stopped atomic.Bool
}

func (t *runningTurn) isStopped() bool { return t.stopped.Load() }

var errNotFound = server.NewError(http.StatusNotFound, "Not Found")

// findChat returns the options of the app in the path. An app without the page is not found, as
// one that does not exist.
func (h *handlers) findChat(r *http.Request) (*runtime.App, *Settings, error) {
	app := h.Host().App(r.PathValue("app"))
	if app == nil {
		return nil, nil, errNotFound
	}
	chat := h.readSettings(app)
	if chat == nil {
		return nil, nil, errNotFound
	}
	return app, chat, nil
}

// readSettings returns the options of an app; nil for an app without the page.
func (h *handlers) readSettings(app *runtime.App) *Settings {
	chat, _ := app.Section(sectionKey).(*Settings)
	switch {
	case h.opts.Off:
		return nil
	case chat == nil && h.opts.All:
		return DefaultSettings()
	}
	return chat
}

// describeProtocol describes the page to its app's author.
func (h *handlers) describeProtocol(base string, app *runtime.App) server.Protocol {
	return server.Protocol{Name: "Chat page", Section: sectionKey, Offered: h.readSettings(app) != nil, Address: base + "/chat/" + url.PathEscape(app.Name()), Snippets: []server.Snippet{}}
}
