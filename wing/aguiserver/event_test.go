package aguiserver

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"agenthost/pkg/server"
)

// Each field is encoded as encoding/json encodes it.
func TestEventJSON(t *testing.T) {
	values := map[string]any{
		"Delta": []any{operation{"add", "/a", 1.5}}, "Content": "", "Snapshot": clientState{"a": []any{1.0, "<"}},
		"Messages": []message{{ID: "m", Role: roleUser, Content: json.RawMessage(`"x"`)}},
		"Outcome":  &outcome{Type: "interrupt", Pending: []string{"c"}}, "Usage": []*usage{{Model: "m", Input: 1}},
	}
	all := []*event{{Type: runFinished}, {Type: textContent, Delta: "", Usage: []*usage{}}, {Type: stateSnapshot, Snapshot: clientState{}}}
	for i := range reflect.TypeFor[event]().NumField() {
		ev := &event{Type: runStarted}
		field, name := reflect.ValueOf(ev).Elem().Field(i), reflect.TypeFor[event]().Field(i).Name
		if v := values[name]; v != nil {
			field.Set(reflect.ValueOf(v))
		} else {
			field.SetString("ü <&> \" \\ \n \t \x01 " + name)
		}
		if name == "Type" {
			field.SetString(name)
		}
		all = append(all, ev)
	}
	for _, ev := range all {
		want, err := server.EncodeJSON(ev)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ev.appendJSON([]byte("data: "))
		if err != nil || string(got) != "data: "+string(want) {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	got, err := (&event{Type: stateSnapshot, Snapshot: clientState{"a": math.NaN()}}).appendJSON([]byte("x"))
	if err == nil || string(got) != "x" {
		t.Errorf("a number that JSON cannot represent: got %s %v", got, err)
	}
}
