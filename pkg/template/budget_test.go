package template_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/template"
)

// TestBudgetExceededTogether checks that evaluations within their own limits fail once they
// exceed a shared budget, and succeed without one.
func TestBudgetExceededTogether(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		budget    func() *template.Budget
		most      int
		want      string
	}{
		{"rounds", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 8, "this turn's expressions together exceed the limit of 1 MiB"},
		{"texts", "len(repeat('x', 60000))", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 20, "this turn's expressions together exceed the limit of 1 MiB"},
		{"result", "s", func() *template.Budget { return template.NewBudget(1<<20, time.Hour) }, 12, "this turn's expressions together exceed the limit of 1 MiB"},
		{"time", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return template.NewBudget(1<<40, time.Millisecond) }, 5, "this turn's expressions together exceed the limit of 1ms"},
		{"small ones", "n + 1", func() *template.Budget {
			return template.NewBudget(template.DefaultBudgetMemory, template.DefaultBudgetTime)
		}, 1000, ""},
		{"none", "len(map(1..3000, map(1..3, #)))", func() *template.Budget { return nil }, 20, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := template.Compile(tt.src, template.Env{"n": 0, "s": nil})
			if err != nil {
				t.Fatal(err)
			}
			vars := map[string]any{"n": int64(1), "s": strings.Repeat("x", 100_000), template.BudgetName: tt.budget()}
			for range tt.most {
				if _, err = x.Eval(t.Context(), vars); err != nil {
					break
				}
			}
			if got := message(err); got != tt.want {
				t.Errorf("after %d evaluations: %q, want %q", tt.most, got, tt.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestSlotsLimitLargeEvaluations: large evaluations that share slots run at most as many at once,
// and the others wait; small ones need no slot. Without slots all run at once, which is the
// control.
func TestSlotsLimitLargeEvaluations(t *testing.T) {
	const evaluations, large = 4, "[len(map(1..6000, #)), inject('')]"
	for _, tt := range []struct {
		name, src   string
		slots, most int
	}{
		{"large", large, 2, 2},
		{"small", "[len(map(1..60, #)), inject('')]", 2, evaluations},
		{"control: no slots", large, 0, evaluations},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inside atomic.Int64
				leave := make(chan bool)
				inject := func(string) (string, error) {
					inside.Add(1)
					<-leave
					return "", nil
				}
				x, err := template.Compile(tt.src, template.Env{"inject": inject})
				if err != nil {
					t.Fatal(err)
				}
				var slots template.Slots
				if tt.slots > 0 {
					slots = template.NewSlots(tt.slots)
				}
				var all sync.WaitGroup
				for range evaluations {
					all.Go(func() {
						budget := template.NewBudget(template.DefaultBudgetMemory, time.Hour).WithSlots(slots)
						if _, err := x.Eval(t.Context(), map[string]any{"inject": inject, template.BudgetName: budget}); err != nil {
							t.Errorf("Eval() = %v, want no error: waiting for a slot is not its time", err)
						}
					})
				}
				synctest.Wait()
				if got := int(inside.Load()); got != tt.most {
					t.Errorf("%d evaluations at once, want %d", got, tt.most)
				}
				close(leave)
				all.Wait()
				if len(slots) > 0 {
					t.Errorf("%d slots are held after the end", len(slots))
				}
			})
		})
	}
}

// TestSlotsCancelled: an evaluation that waits for a slot ends with its context.
func TestSlotsCancelled(t *testing.T) {
	slots := template.NewSlots(1)
	slots <- struct{}{}
	x, err := template.Compile("len(map(1..6000, #))", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	budget := template.NewBudget(template.DefaultBudgetMemory, time.Hour).WithSlots(slots)
	if _, err := x.Eval(ctx, map[string]any{template.BudgetName: budget}); !errors.Is(err, context.Canceled) {
		t.Errorf("Eval() = %v, want the context's error", err)
	}
}
