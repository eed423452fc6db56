package session

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An outcome comes back from its stored form, whatever its names are.
func TestOutcomeForm(t *testing.T) {
	o := Outcome{
		Revision: "4b1d", Protocol: "run_sse", Day: 20783, Previous: 12, Turns: 3, Code: "MODEL FAILED",
		Failures: []CodeCount{{"TOOL_FAILED", 1}, {"", 2}}, Millis: 1200, SquaredMillis: 720_000, Asked: 3, Approved: 1, Rejected: 2,
		Agents: []AgentOutcome{{Agent: "desk", Calls: 2, Priced: 1, Input: 120, Cached: 20, Output: 30, NanoUSD: 40_500, ToolCalls: 2, ToolErrors: 1}, {Agent: "a %20\n-é"}, {Agent: "-"}, {}, {Agent: "\xff"}},
	}
	text := o.Append([]byte("x"))
	const want = `x1 20783 12 3 1200 720000 3 1 2 4b1d run_sse MODEL%20FAILED !TOOL_FAILED 1 !- 2 @desk 2 1 120 20 30 40500 2 1 ` +
		`@a%20%2520%0A-é 0 0 0 0 0 0 0 0 @%2D 0 0 0 0 0 0 0 0 @- 0 0 0 0 0 0 0 0 @%FF 0 0 0 0 0 0 0 0`
	if string(text) != want {
		t.Errorf("Append = %s\nwant     %s", text, want)
	}
	var read Outcome
	if err := read.Decode(text[1:]); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(o, read); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	if text := (&Outcome{Revision: "4b1d", Day: 1}).Append(nil); text != nil {
		t.Errorf("an outcome without counts is stored as %q", text)
	}
}

// Text that is not an outcome is an error, and leaves an empty one.
func TestOutcomeMalformed(t *testing.T) {
	good := (&Outcome{Turns: 1, Agents: []AgentOutcome{{Agent: "a"}}}).Append(nil)
	for _, text := range []string{
		"2 0", "1", "x", string(good) + " 1", string(good) + " !A", string(good) + " @%2 0 0 0 0 0 0 0 0", string(good) + " @%zz 0 0 0 0 0 0 0 0",
		strings.Replace(string(good), "1 0", "1 -1", 1), strings.Replace(string(good), "1 0", "1 99999999999999999999", 1),
		string(good) + strings.Repeat(" !A 1", maxOutcomeCodes+1), string(good) + strings.Repeat(" @a 0 0 0 0 0 0 0 0", maxOutcomeAgents),
	} {
		o := Outcome{Turns: 7}
		if err := o.Decode([]byte(text)); !errors.Is(err, errOutcome) || o.Turns != 0 {
			t.Errorf("Decode(%q) = %v, %+v", text, err, o)
		}
	}
	if err := new(Outcome).Decode(make([]byte, maxOutcomeText+1)); err == nil || err.Error() != "outcome exceeds the limit of 65536 bytes" {
		t.Errorf("Decode of a long text = %v", err)
	}
}

// A turn is unfinished until it ends; how it ended stays counted when the next one begins.
func TestOutcomeTurns(t *testing.T) {
	var o Outcome
	for _, code := range []string{"", "MODEL_FAILED", "MODEL_FAILED", CodeUnfinished} {
		o.BeginTurn()
		o.Code = code
	}
	want := Outcome{Turns: 4, Code: CodeUnfinished, Failures: []CodeCount{{"MODEL_FAILED", 2}}}
	if d := cmp.Diff(want, o); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
	if n := o.CountFailed(); n != 3 {
		t.Errorf("CountFailed = %d, want 3", n)
	}
	sum := Outcome{Revision: "r", Day: 3, Turns: 1, Code: "X", Millis: 5}
	sum.Add(&Outcome{Revision: "s", Day: 4, Previous: 9, Turns: 2, Millis: math.MaxInt64, Code: "X", Agents: []AgentOutcome{{Agent: "a", Calls: 1}}})
	want = Outcome{Revision: "r", Day: 3, Turns: 3, Failures: []CodeCount{{"X", 2}}, Millis: math.MaxInt64, Agents: []AgentOutcome{{Agent: "a", Calls: 1}}}
	if d := cmp.Diff(want, sum); d != "" {
		t.Errorf("sum (-want +got):\n%s", d)
	}
}

// However many agents and codes a session has, its outcome stays small.
func TestOutcomeBounds(t *testing.T) {
	var o Outcome
	for i := range 1000 {
		o.BeginTurn()
		o.Code = fmt.Sprint("CODE_", i)
		o.AddAgent(AgentOutcome{Agent: fmt.Sprint("agent_", i), Calls: 1})
	}
	o.AddAgent(AgentOutcome{Agent: strings.Repeat("x", 1000), Calls: 1})
	if len(o.Agents) != maxOutcomeAgents || len(o.Failures) != maxOutcomeCodes || o.CountFailed() != 1000 {
		t.Errorf("%d agents, %d codes, %d failed", len(o.Agents), len(o.Failures), o.CountFailed())
	}
	if last := o.Agents[maxOutcomeAgents-1]; last != (AgentOutcome{Agent: OtherName, Calls: 1001 - maxOutcomeAgents + 1}) {
		t.Errorf("the rest is %+v", last)
	}
	text := o.Append(nil)
	if err := new(Outcome).Decode(text); err != nil || len(text) > 4096 {
		t.Errorf("stored form has %d bytes, %v", len(text), err)
	}
}

// A turn that continues an outcome allocates nothing to read it but its agents' names.
func TestOutcomeAllocations(t *testing.T) {
	o := Outcome{Revision: "4b1d", Protocol: "run_sse", Day: 20783, Turns: 1}
	text := o.Append(nil)
	if n := testing.AllocsPerRun(100, func() {
		if err := o.Decode(text); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Decode allocates %v times, want 0", n)
	}
	// A name in its stored form is not mistaken for an equal name.
	for _, likely := range []string{"-", "%2D", "a%20b", "a b", ""} {
		for _, name := range []string{"-", "%2D", "a%20b", "a b", ""} {
			stored := Outcome{Revision: name, Turns: 1}
			o := Outcome{Revision: likely}
			if err := o.Decode(stored.Append(nil)); err != nil || o.Revision != name {
				t.Errorf("Decode of %q after %q = %q, %v", name, likely, o.Revision, err)
			}
		}
	}
}

// Selected costs nothing when it is false. An agenthost that does not know it reads it as a code
// without turns, however many codes there are, and writes it back.
func TestOutcomeSelected(t *testing.T) {
	plain := Outcome{Revision: "4b1d", Protocol: "run_sse", Day: 20783, Previous: 12, Turns: 1}
	const want = "1 20783 12 1 0 0 0 0 0 4b1d run_sse -"
	if text := string(plain.Append(nil)); text != want {
		t.Errorf("Append = %s, want %s", text, want)
	}
	o := plain
	o.Selected = true
	if text := string(o.Append(nil)); text != want+" !(selected) 0" {
		t.Errorf("Append = %s, want %s !(selected) 0", text, want)
	}
	for i := range 100 {
		o.BeginTurn()
		o.Code = fmt.Sprint("CODE_", i)
	}
	text := o.Append(nil)
	read := Outcome{Revision: o.Revision, Protocol: o.Protocol}
	if err := read.Decode(text); err != nil || !read.Selected {
		t.Errorf("Decode = %v, selected %v", err, read.Selected)
	}
	if d := cmp.Diff(o, read); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	if err := read.Decode([]byte(want)); err != nil || read.Selected {
		t.Errorf("Decode after another one = %v, selected %v", err, read.Selected)
	}
	// To this program, an unknown code is what the code is to an older one.
	unknown := strings.Replace(string(text), "!(selected)", "!(unknown)", 1)
	var older Outcome
	if err := older.Decode([]byte(unknown)); err != nil || len(older.Failures) != maxOutcomeCodes || older.CountFailed() != o.CountFailed() {
		t.Errorf("an older agenthost reads %+v, %v", older, err)
	}
	older.BeginTurn()
	if again := string(older.Append(nil)); !strings.Contains(again, " !(unknown) 0") {
		t.Errorf("an older agenthost writes %s", again)
	}
	// A code of that name with turns stays one.
	o = Outcome{Turns: 2, Failures: []CodeCount{{selectedCode, 2}}}
	if err := read.Decode(o.Append(nil)); err != nil || read.Selected || read.CountFailed() != 2 {
		t.Errorf("a code with the name: %+v, %v", read, err)
	}
}
