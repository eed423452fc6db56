package a2aagent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// Keys in an event's custom metadata, as ADK has them.
const (
	taskKey    = "a2a:task_id"
	contextKey = "a2a:context_id"
	// actionsKey is the actions of the remote agent, until applyActions has seen them.
	actionsKey = "a2a:actions"
)

// contextLabel is the label of a model request that has the remote context's ID.
const contextLabel = "a2a_context_id"

// A relay connects the session to the remote agent: which context the conversation has there, and what
// the remote agent may change here. It is safe for concurrent use.
type relay struct {
	name  string
	apply actionsYAML
}

// nameContext gives a request the ID of the remote context. It is the one of the agent's last event, or
// else one that no client can choose: the server may see all users as one caller, so that a session's ID
// alone would open another user's conversation.
func (a *relay) nameContext(_ context.Context, m *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
	sess := m.Session()
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", sess.App, sess.User, sess.ID, a.name))
	id := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	for _, ev := range slices.Backward(session.Recorded(sess.Events())) {
		if ev.Author != a.name {
			continue
		}
		if known, ok := ev.CustomMetadata[contextKey].(string); ok && known != "" {
			id = known
			break
		}
	}
	labels := maps.Clone(req.Config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[contextLabel] = id
	req.Config.Labels = labels
	return nil, nil
}

// applyActions applies the actions that are allowed, and drops the others.
func (a *relay) applyActions(_ context.Context, m *runtime.CallbackContext, resp *model.Response) (*model.Response, error) {
	wanted, ok := resp.CustomMetadata[actionsKey].(map[string]any)
	if !ok {
		return nil, nil
	}
	delta, _ := wanted["stateDelta"].(map[string]any)
	for _, key := range a.apply.State {
		if value, isSet := delta[key]; isSet {
			m.State.Set(key, value)
		}
	}
	if wanted["escalate"] == true && a.apply.Escalate {
		m.Actions.Escalate = true
	}
	resp = resp.Clone()
	delete(resp.CustomMetadata, actionsKey)
	return resp, nil
}

// consentToolName is the tool that waits until the user has authorized the connection.
const consentToolName = "authorize_remote_agent"

// A consentTool gets the user's permission for a connection: the runtime requests it for a tool, not for
// a model.
type consentTool struct {
	toolconfig.Declarer
	connection *connection.Connection
}

func newConsentTool(c *connection.Connection) *consentTool {
	return &consentTool{toolconfig.NewDeclarer(consentToolName, "Gets the user's permission for the remote agent.", toolconfig.ObjectSchema(map[string]any{})), c}
}

// Run fails with a [*connection.ConsentError] until the user has authorized the connection; see
// [tool.Tool].
func (t *consentTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if err := t.connection.Prepare(ctx, connection.User{App: call.Origin.App, UserID: call.Origin.UserID}); err != nil {
		return nil, err
	}
	return &tool.Result{Response: map[string]any{"authorized": true}}, nil
}

// A questionTool makes a call that a person answers later.
type questionTool struct{ toolconfig.Declarer }

func newQuestionTool() *questionTool {
	return &questionTool{toolconfig.NewDeclarer(tool.RequestInput, "Asks the user a question of the remote agent.", toolconfig.ObjectSchema(map[string]any{
		"message": map[string]any{"type": "string"}, "response_schema": map[string]any{"type": "object"}, "payload": map[string]any{"type": "object"},
	}, "message"))}
}

// Capabilities implements [tool.Capable].
func (t *questionTool) Capabilities() tool.Capabilities { return tool.Capabilities{LongRunning: true} }

// Run leaves the call open; see [tool.Tool].
func (t *questionTool) Run(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }
