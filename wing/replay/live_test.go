package replay_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/replay"
)

// priced is the desk with a price: about 0.01 US dollars for each call.
func newPricedDesk(t *testing.T, messages ...string) *shop {
	t.Helper()
	s := newDesk(t)
	s.edit("desk/app.yaml", "script: s.yaml", "script: s.yaml, price: {input: 100, output: 1000}")
	path := filepath.Join(s.dir, "desk", "s.yaml")
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	script = regexp.MustCompile(`(?m)^(- |  )((text|calls): .*)$`).ReplaceAll(script, []byte("$1$2\n  usage: {prompt: 100, candidates: 1}"))
	if err := os.WriteFile(path, script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.host.Watch().Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, text := range messages {
		s.send("desk", "ana", "s"+string(rune('1'+i)), text, true)
	}
	return s
}

func live(maxUSD float64, tools ...string) func(*replay.Request) {
	return func(req *replay.Request) { req.Live = &replay.Live{MaxUSD: maxUSD, Tools: tools} }
}

// With live models a changed answer is found, which the record cannot show; another wording counts as text. The
// old revision is called as well. Control: a replay from the record finds nothing.
func TestLiveModels(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"unchanged", "You wrote", "You wrote", ""},
		{"other words", "You wrote", "They wrote", "s1 turn 1 text: another text []"},
		{"another tool", "calls: [{name: vat, args: {net: 100}}]", "calls: [{name: pay, args: {amount: 5, order: \"9\"}}]", "s2 turn 1 tool: vat → pay []"},
		{"other arguments", "net: 100", "net: 200", "s2 turn 1 arguments: vat []"},
		{"a failure", "- text: \"You wrote: {user}\"\n  usage: {prompt: 100, candidates: 1}", "- error: {code: 500, message: broken}", "s1 turn 1 error: fails with INTERNAL []"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newPricedDesk(t, "hi", "vat")
			s.edit("desk/s.yaml", test.from, test.to)
			if got := describe(s.replay("desk", nil)); got != "" {
				t.Errorf("control: a replay from the record finds %s", got)
			}
			r := s.replay("desk", live(10))
			if got := describe(r); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if !r.Live || r.Calls < 3 || r.USD <= 0 {
				t.Errorf("live %t, %d calls, %v US dollars", r.Live, r.Calls, r.USD)
			}
		})
	}
}

// A live replay stops at its ceiling: no call begins above it, and sessions without a whole answer are no
// evidence. Control: with a higher ceiling all sessions are replayed.
func TestLiveCeiling(t *testing.T) {
	s := newPricedDesk(t, "hi", "hi", "hi", "hi", "hi", "hi")
	whole := s.replay("desk", live(10))
	if whole.Unplayed > 0 || whole.Sessions != 6 {
		t.Fatalf("control: %+v", whole)
	}
	each := whole.USD / float64(whole.Calls)
	r := s.replay("desk", live(3.5*each))
	if r.Calls != 4 || r.USD > 4.01*each || r.Unplayed == 0 || r.Sessions+r.Unplayed != 6 || len(r.Differences) > 0 {
		t.Errorf("%d calls for %v US dollars with a ceiling of %v: %d sessions, %d not replayed, %v", r.Calls, r.USD, 3.5*each, r.Sessions, r.Unplayed, r.Differences)
	}
}

// A model without a price has no ceiling, so it is not called.
func TestLiveRequiresPrices(t *testing.T) {
	s := newDesk(t, "hi")
	req := &replay.Request{Loader: loader.New(testenv.Kinds(), nil), Dir: filepath.Join(s.dir, "desk"), Store: s.store, Now: time.Now(), Live: &replay.Live{MaxUSD: 1}}
	_, _, err := replay.PlaySessions(t.Context(), req)
	if !errors.As(err, new(*replay.UnpricedError)) || !strings.Contains(err.Error(), "and m has none: add price under models in app.yaml, or pass --prices") {
		t.Errorf("error: %v", err)
	}
	s.edit("desk/app.yaml", "script: s.yaml", "script: s.yaml, price: {input: 100, output: 1000}")
	_, _, err = replay.PlaySessions(t.Context(), req)
	if !errors.As(err, new(*replay.UnmeasuredError)) || err.Error() != "model scripted reports no tokens, so no ceiling can count its calls: replay it from the record" {
		t.Errorf("error without tokens: %v", err)
	}
}

// Tools answer from the record with live models too. One that is granted runs when the record has no answer.
func TestLiveTools(t *testing.T) {
	s := newPricedDesk(t, "find")
	s.edit("desk/s.yaml", `calls: [{name: find_order, args: {id: "17"}}]`, `calls: [{name: find_order, args: {id: "17"}}, {name: find_order, args: {id: "18"}}]`)
	r := s.replay("desk", live(10))
	if got := describe(r); got != "s1 turn 1 tool: result of find_order → find_order []" || r.Differences[0].Lacks != "the record has no answer from tool find_order" {
		t.Errorf("not granted: %s, lacks %v", got, r.Differences)
	}
	r = s.replay("desk", live(10, "find_order"))
	if got := describe(r); got != "s1 turn 1 tool: result of find_order → find_order []" || r.Differences[0].Lacks != "" {
		t.Errorf("granted: %s, lacks %v", got, r.Differences)
	}
}
