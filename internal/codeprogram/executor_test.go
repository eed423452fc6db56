package codeprogram

import (
	"testing"

	"agenthost/pkg/runtime"
)

// TestCodeWithoutPrograms expects code to fail where no programs run, as in app tests.
func TestCodeWithoutPrograms(t *testing.T) {
	_, err := (&Executor{}).ExecuteCode(t.Context(), &runtime.CallbackContext{}, &runtime.Code{Source: "1"})
	if want := "no code runs here: tests run no programs"; err == nil || err.Error() != want {
		t.Errorf("ExecuteCode = %v, want %s", err, want)
	}
}
