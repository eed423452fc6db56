package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/session"
)

func TestRequestConfirmation(t *testing.T) {
	call := tooltest.NewCall(nil, nil)
	call.Name = "pay"
	call.RequestConfirmation("", nil)
	call.ID = "call-2"
	call.RequestConfirmation("Pay?", []int{1})
	want := &session.Actions{SkipSummarization: true, RequestedToolConfirmations: map[string]*session.Confirmation{
		"call-1": {Hint: "Please approve or reject the tool call pay() by responding with a FunctionResponse with an expected ToolConfirmation payload."},
		"call-2": {Hint: "Pay?", Payload: []any{int64(1)}},
	}}
	if diff := cmp.Diff(want, call.Actions); diff != "" {
		t.Errorf("Actions (-want +got):\n%s", diff)
	}
}
