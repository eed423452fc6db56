package safe_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"agenthost/internal/safe"
)

// TestCallReturnsPanic: a panic is returned with its value and stack, and nil without one.
func TestCallReturnsPanic(t *testing.T) {
	if p := safe.Call(func() {}); p != nil {
		t.Errorf("Call() = %v, want nil without a panic", p)
	}
	p := safe.Call(func() { panic("nil map") })
	if p == nil || p.Value != "nil map" || p.Error() != "panic: nil map" || !strings.Contains(p.Stack, "TestCallReturnsPanic") {
		t.Errorf("Call() = %+v, want the panic with the stack that leads to it", p)
	}
}

// TestRecoverOnGoroutine: the goroutine reports its panic and the process continues.
func TestRecoverOnGoroutine(t *testing.T) {
	reported := make(chan *safe.Panic, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) { reported <- p })
		panic("nil map")
	}()
	if p := <-reported; !strings.Contains(p.Error(), "nil map") {
		t.Errorf("reported %v, want the panic", p)
	}
}

// TestLogHasValueAndStack: the log has the value and the stack.
func TestLogHasValueAndStack(t *testing.T) {
	var out bytes.Buffer
	p := safe.Call(func() { panic("nil map") })
	p.Log(slog.New(slog.NewTextHandler(&out, nil)), "reload panicked", "app", "a")
	for _, want := range []string{"level=ERROR", `msg="reload panicked"`, "app=a", `panic="nil map"`, "safe_test.go"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %s\nhas no %s", out.String(), want)
		}
	}
}
