package runtime

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"agenthost/pkg/model"
)

// A run has a value with the right type for each setting that expressions can read.
func TestConfigVars(t *testing.T) {
	want := model.SampleRunConfig()
	got := (&run{turn: turn{config: DefaultRunConfig()}}).ReadConfig()
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Fatalf("settings %v, want %v", a, b)
	}
	for key, value := range got {
		if reflect.TypeOf(value) != reflect.TypeOf(want[key]) {
			t.Errorf("%s is %T, want %T", key, value, want[key])
		}
	}
}
