package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A person who approves a call may change the arguments that its tool allows (confirm: edit):
//
//   - The request has their schema under editableArgs, and their values as the payload, which ADK's
//     clients show.
//   - An approval has the changed values as its payload. Values that it leaves out do not change.
//     An invalid payload is rejected before it is stored.
//   - The call runs with the changes. The model's call stays in the history as it was made, and the
//     event with the result has an [EditedCall] in its metadata.
//   - The model reads the changed arguments next to the result (withEditNotes). The stored result does
//     not have them, because expressions and other clients read it.

// editableArgs is the key for the schema in a request.
const editableArgs = "editableArgs"

// EditedCallsKey is the key in an event's custom metadata for the calls that ran with changed
// arguments, by their ID.
const EditedCallsKey = "edited_calls"

// editNoteKey is the key in a response, as the model reads it, for the arguments that a person changed.
const editNoteKey = "arguments_changed_by_user"

// An EditedCall has the arguments with which a call ran after a person has changed some.
type EditedCall struct {
	Args map[string]any
	// Changed are the names of the changed arguments, and User changed them in the answer to
	// Confirmation.
	Changed            []string
	User, Confirmation string
}

func (c *EditedCall) encodeCall() map[string]any {
	names := make([]any, len(c.Changed))
	for i, name := range c.Changed {
		names[i] = name
	}
	return map[string]any{"args": cloneArgs(c.Args), "changed": names, "user": c.User, "confirmation": c.Confirmation}
}

// ReadEditedCall returns how a call's arguments were changed before it had the result in an event, or
// nil.
func ReadEditedCall(ev *session.Event, call string) *EditedCall {
	all, _ := ev.CustomMetadata[EditedCallsKey].(map[string]any)
	stored, ok := all[call].(map[string]any)
	if !ok {
		return nil
	}
	c := &EditedCall{}
	c.Args, _ = stored["args"].(map[string]any)
	c.User, _ = stored["user"].(string)
	c.Confirmation, _ = stored["confirmation"].(string)
	names, _ := stored["changed"].([]any)
	for _, v := range names {
		if name, ok := v.(string); ok {
			c.Changed = append(c.Changed, name)
		}
	}
	return c
}

// withEditNotes returns an event as the model reads it: a response to a call that ran with changed
// arguments contains these, because the model would otherwise take its own for those that ran.
func withEditNotes(ev *session.Event) *session.Event {
	if ev.CustomMetadata[EditedCallsKey] == nil || ev.Content == nil {
		return ev
	}
	content := &genai.Content{Role: ev.Content.Role, Parts: slices.Clone(ev.Content.Parts)}
	for i, p := range content.Parts {
		if p.FunctionResponse == nil {
			continue
		}
		edited := ReadEditedCall(ev, p.FunctionResponse.ID)
		if edited == nil {
			continue
		}
		changed := map[string]any{}
		for _, name := range edited.Changed {
			changed[name] = edited.Args[name]
		}
		response := *p.FunctionResponse
		response.Response = mergeMaps(response.Response, map[string]any{editNoteKey: changed})
		part := *p
		part.FunctionResponse = &response
		content.Parts[i] = &part
	}
	own := *ev
	own.Content = content
	return &own
}

// withEdited adds a changed call to an event's metadata.
func (a *callResult) withEdited(metadata map[string]any) map[string]any {
	if a.edited == nil {
		return metadata
	}
	all, _ := metadata[EditedCallsKey].(map[string]any)
	return mergeMaps(metadata, map[string]any{EditedCallsKey: mergeMaps(all, map[string]any{a.part.FunctionResponse.ID: a.edited.encodeCall()})})
}

// withoutEditedCalls returns a client's metadata for events without the key that only the runtime
// writes.
func withoutEditedCalls(metadata map[string]any) map[string]any {
	if _, has := metadata[EditedCallsKey]; !has {
		return metadata
	}
	own := maps.Clone(metadata)
	delete(own, EditedCallsKey)
	return own
}

// selectEditable returns the arguments of a call that the person who confirms it may change, and
// their schema; nil if there are none.
func selectEditable(t tool.Tool, call *genai.FunctionCall) (values map[string]any, schema any) {
	if t == nil {
		return nil, nil
	}
	editor := tool.CapabilitiesOf(t).Edit
	if editor == nil {
		return nil, nil
	}
	return cloneArgs(editor.Select(call.Args)), session.Normalize(editor.Schema())
}

// readEdits returns the arguments that an approval changes; nil without. A rejection changes none.
func readEdits(confirmation *session.Confirmation, args map[string]any, id string) (map[string]any, error) {
	if !confirmation.Confirmed || confirmation.Payload == nil {
		return nil, nil
	}
	given, ok := confirmation.Payload.(map[string]any)
	if !ok {
		return nil, invalidRequest("the payload for the confirmation %s must be an object with the changed arguments", id)
	}
	var edits map[string]any
	for name, value := range given {
		if old, has := args[name]; has && sameJSON(old, value) {
			continue
		}
		if edits == nil {
			edits = map[string]any{}
		}
		edits[name] = session.Normalize(value)
	}
	return edits, nil
}

// readEdits reads the changes in an answer, and checks them if the tool is known already.
func (d *decisions) readEdits(one *decision, id string) (err error) {
	edits, err := readEdits(one.confirmation, one.call.Args, id)
	if err != nil || len(edits) == 0 {
		return err
	}
	one.edits, one.editedBy = edits, id
	if t := d.tools(d.author, one.call.Name); t != nil {
		if _, err := editArgs(context.Background(), t, one.call.Args, edits); err != nil {
			return invalidRequest("the payload for the confirmation %s: %s", id, err)
		}
	}
	return nil
}

// editArgs returns a call's arguments with a person's changes.
func editArgs(ctx context.Context, t tool.Tool, args, edits map[string]any) (map[string]any, error) {
	editor := tool.CapabilitiesOf(t).Edit
	if editor == nil {
		return nil, fmt.Errorf("the arguments of tool %s cannot be changed: send no payload", t.Declaration().Name)
	}
	return editor.EditArgs(ctx, cloneArgs(args), edits)
}

// applyEdits gives a decided call the arguments that the person changed.
func (s *callRunner) applyEdits(ctx context.Context, t tool.Tool, call *tool.Call, d *decision, a *callResult) error {
	if len(d.edits) == 0 {
		return nil
	}
	args, err := editArgs(ctx, t, call.Args, d.edits)
	if err != nil {
		return err
	}
	call.Args = args
	a.edited = &EditedCall{
		Args: cloneArgs(args), Changed: slices.Sorted(maps.Keys(d.edits)), User: s.inv.run.sess.User, Confirmation: d.editedBy,
	}
	return nil
}
