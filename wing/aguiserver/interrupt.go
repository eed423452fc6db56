package aguiserver

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/session"
)

// The reasons for interrupts.
const (
	reasonCall          = "tool_call"
	reasonConfirmation  = "confirmation"
	reasonInput         = "input_required"
	reasonAuthorization = "agenthost:authorization"
)

// newInterrupt returns a form as an interrupt.
func newInterrupt(f *protocol.Form) interrupt {
	in := interrupt{ID: f.Call.ID, Reason: reasonInput, Message: f.Message, ResponseSchema: f.Schema}
	switch {
	case f.Approval != nil && f.Approval.CallID != "":
		in.Reason, in.ToolCallID = reasonCall, f.Approval.CallID
		in.Metadata = map[string]any{"tool": f.Approval.Tool, "args": f.Approval.Args}
	case f.Approval != nil: // a workflow's call, which the client has not seen
		in.Reason = reasonConfirmation
		in.Metadata = map[string]any{"tool": f.Approval.Tool, "args": f.Approval.Args}
	case f.Address != "":
		in.Reason, in.Metadata = reasonAuthorization, map[string]any{"url": f.Address}
		if f.Code != "" {
			in.Metadata["code"] = f.Code
		}
	default:
		in.ToolCallID = f.Call.ID
	}
	if f.Approval != nil && f.Approval.Payload != nil && f.Approval.Editable == nil {
		in.Metadata["payload"] = f.Approval.Payload
	}
	return in
}

// readAnswers returns the answers to a thread's interrupts; each needs one.
func readAnswers(ctx context.Context, entries []resumeEntry, forms []*protocol.Form) ([]*genai.FunctionResponse, error) {
	given := map[string]*resumeEntry{}
	for i := range entries {
		e := &entries[i]
		isOpen := func(f *protocol.Form) bool { return f.Call.ID == e.InterruptID }
		switch {
		case !slices.ContainsFunc(forms, isOpen):
			return nil, newInterruptError("resume[%d].interruptId %q is not that of an open interrupt", i, protocol.TruncateText(e.InterruptID, maxShown))
		case given[e.InterruptID] != nil:
			return nil, newInterruptError("resume[%d]: duplicate answer to interrupt %q", i, protocol.TruncateText(e.InterruptID, maxShown))
		case e.Status != "resolved" && e.Status != "cancelled":
			return nil, newInterruptError("resume[%d].status must be resolved or cancelled, got %q", i, protocol.TruncateText(e.Status, maxShown))
		}
		given[e.InterruptID] = e
	}
	var all []*genai.FunctionResponse
	for _, f := range forms {
		e := given[f.Call.ID]
		if e == nil {
			return nil, newInterruptError("resume must answer all open interrupts: %s has no answer", f.Call.ID)
		}
		response, err := e.readAnswer(ctx, f)
		if err != nil {
			return nil, newInterruptError("the answer to interrupt %s is invalid: %s", f.Call.ID, err)
		}
		all = append(all, &genai.FunctionResponse{ID: f.Call.ID, Name: f.Call.Name, Response: response})
	}
	return all, nil
}

func (e *resumeEntry) readAnswer(ctx context.Context, f *protocol.Form) (map[string]any, error) {
	if e.Status == "cancelled" {
		return f.Cancel(), nil
	}
	var payload any
	if len(e.Payload) > 0 {
		value, err := session.DecodeValue(e.Payload)
		if err != nil {
			return nil, err
		}
		payload = value
	}
	return f.ReadAnswer(ctx, payload)
}

// listInterruptIDs names a thread's interrupts in an error.
func listInterruptIDs(forms []*protocol.Form) string {
	var ids []string
	for _, f := range forms {
		ids = append(ids, f.Call.ID)
	}
	return strings.Join(ids, ", ")
}

// isHostRequest reports whether a form is the runtime's own call about another one, which clients do not
// see as a call.
func isHostRequest(f *protocol.Form) bool { return f.Approval != nil || f.Address != "" }
