package rollout

import (
	"cmp"
	_ "embed"
	"errors"
	"net/http"
	"slices"
	"strings"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/server"
	"agenthost/pkg/store"
)

// components are the schemas for the routes.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	controller *Controller
}

// Extend returns a server extension with routes for administrators. Without a controller the routes
// show and change the stored rollouts, which other hosts follow.
func Extend(c *Controller) func(*server.Services) *server.Extension {
	return func(s *server.Services) *server.Extension {
		h := &handlers{s, c}
		limits := server.Limits{ShareTimeout: true}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "GET", Pattern: "/apps/{app}/rollout", Limits: limits, Handler: h.handleGet, Doc: server.Doc{Tag: "apps", ID: "getRollout", Summary: "Show the rollout of an app's change", Answer: "Rollout"}},
			{Method: "POST", Pattern: "/apps/{app}/rollout", Limits: limits, Handler: h.handleAction, Doc: server.Doc{Tag: "apps", ID: "changeRollout", Summary: "Pause, resume, promote or abort the rollout", Body: "RolloutAction", Answer: "Rollout"}},
		}}
	}
}

// openController returns the controller for a request.
func (h *handlers) openController() *Controller {
	if h.controller != nil {
		return h.controller
	}
	return NewStoredController(h.Host().Store())
}

func (h *handlers) handleGet(w http.ResponseWriter, r *http.Request) error {
	app := r.PathValue("app")
	if h.Host().App(app) == nil {
		return server.NewError(http.StatusNotFound, "App not found: "+app)
	}
	v, err := h.openController().ReadView(r.Context(), app)
	if err == nil && h.controller != nil {
		if host := h.controller.host.Load(); host != nil && host.Reports != nil {
			v.addGateEvents(host.Reports())
		}
	}
	return h.writeView(w, r, v, err)
}

func (h *handlers) handleAction(w http.ResponseWriter, r *http.Request) error {
	app := r.PathValue("app")
	if h.Host().App(app) == nil {
		return server.NewError(http.StatusNotFound, "App not found: "+app)
	}
	var body struct {
		Action string `json:"action"`
	}
	if err := h.ReadJSON(w, r, &body); err != nil {
		return err
	}
	if !slices.Contains(actions, body.Action) {
		return jsonbody.NewError("enum", "Input should be "+strings.Join(actions, ", "), "body", "action")
	}
	by, err := h.nameCaller(r)
	if err != nil {
		return err
	}
	v, err := h.openController().ApplyAction(r.Context(), app, body.Action, by)
	if err == nil {
		h.Logger().InfoContext(r.Context(), "rollout "+body.Action, "app", app, "revision", v.Revision, "by", by)
	}
	return h.writeView(w, r, v, err)
}

// nameCaller returns who decides, for the row and the events.
func (h *handlers) nameCaller(r *http.Request) (string, error) {
	p, err := h.Authenticate(r)
	switch {
	case err != nil:
		return "", err
	case p == nil:
		return "a caller without authentication", nil
	}
	return cmp.Or(p.UserID, "admin"), nil
}

// writeView responds with a view. An action that does not fit is a conflict.
func (h *handlers) writeView(w http.ResponseWriter, r *http.Request, v *View, err error) error {
	switch {
	case errors.Is(err, store.ErrNoRollouts):
		return server.NewError(http.StatusNotImplemented, err.Error())
	case errors.As(err, new(actionError)):
		return server.NewError(http.StatusConflict, err.Error())
	case err != nil:
		return err
	}
	return h.WriteLarge(w, r, false, func() ([]byte, error) { return server.EncodeJSON(v) })
}
