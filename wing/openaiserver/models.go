package openaiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// A model is an app, or one of its agents.
type model struct {
	// id is APP or APP/AGENT.
	id       string
	app      *runtime.App
	settings *Settings
	// agent is empty for the one that continues the session.
	agent string
}

// findModel returns a model by its ID. An app that is not offered is not found, as one that does not
// exist.
func (h *handlers) findModel(r *http.Request, id string) (*model, error) {
	only := r.PathValue("app")
	if id == "" {
		id = only
	}
	if id == "" {
		return nil, newRefusal("model", "model is required: the name of an app")
	}
	name, agent, isAgent := strings.Cut(id, "/")
	m := h.newModel(name)
	if m == nil || only != "" && name != only || isAgent && !slices.Contains(m.settings.Agents, agent) {
		return nil, &requestError{http.StatusNotFound, fmt.Sprintf("The model %q does not exist", protocol.TruncateText(id, maxShown)), "model", "model_not_found"}
	}
	m.id, m.agent = id, agent
	return m, nil
}

// newModel returns an app's model; nil if the app is not offered.
func (h *handlers) newModel(name string) *model {
	app := h.Host().App(name)
	if app == nil {
		return nil
	}
	settings := h.readSettings(app)
	if settings == nil {
		return nil
	}
	return &model{id: name, app: app, settings: settings}
}

// readSettings returns what an app offers; nil for nothing.
func (h *handlers) readSettings(app *runtime.App) *Settings {
	settings, _ := app.Section(sectionKey).(*Settings)
	if settings == nil && h.opts.All {
		return &Settings{Instructions: true, Tools: true, Reasoning: true}
	}
	return settings
}

// A modelObject is a model on the wire.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string        `json:"object"`
	Data   []modelObject `json:"data"`
}

// describeModel returns the model on the wire. Apps have no date.
func describeModel(id string) modelObject {
	return modelObject{ID: id, Object: "model", OwnedBy: "agenthost"}
}

func (h *handlers) handleModels(w http.ResponseWriter, r *http.Request) error {
	list := modelList{Object: "list", Data: []modelObject{}}
	caller, err := h.Authenticate(r)
	if err != nil {
		return err
	}
	only := r.PathValue("app")
	for _, app := range h.Host().Apps() {
		name := app.Name()
		m := h.newModel(name)
		if m == nil || only != "" && name != only || caller != nil && !caller.MayUse(r.Context(), name) {
			continue
		}
		list.Data = append(list.Data, describeModel(name))
		for _, agent := range m.settings.Agents {
			list.Data = append(list.Data, describeModel(name+"/"+agent))
		}
	}
	return server.WriteJSON(w, list)
}

func (h *handlers) handleModel(w http.ResponseWriter, r *http.Request) error {
	m, _, err := h.openDoor(r, r.PathValue("model"), "")
	if err != nil {
		return err
	}
	return server.WriteJSON(w, describeModel(m.id))
}

// openDoor returns a model and the user as which the caller acts in it. named is the user that the
// request names.
func (h *handlers) openDoor(r *http.Request, id, named string) (*model, string, error) {
	if _, err := h.Authenticate(r); err != nil {
		return nil, "", err // before it learns which models exist
	}
	m, err := h.findModel(r, id)
	if err != nil {
		return nil, "", err
	}
	user, err := protocol.ResolveCaller(h.Services, r, m.app.Name(), cmp.Or(named, h.opts.User))
	return m, user, err
}
