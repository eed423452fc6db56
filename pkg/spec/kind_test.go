package spec_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

type greetingConfig struct {
	Name string `yaml:"name" required:"true" doc:"Name of the person."`
}

// greetingKinds is a sample extension point: a kind builds a greeting that starts with
// env.
func greetingKinds() spec.Kinds[string, string] {
	return spec.Kinds[string, string]{
		spec.NewKind("greet", "Greets a person.", func(_ context.Context, env string, c *greetingConfig) (string, error) {
			return env + " " + c.Name, nil
		}),
		spec.NewKind("loud", "Has its own form.", func(_ context.Context, _ string, c *shoutText) (string, error) {
			return "", errors.New("too loud: " + c.Text)
		}),
	}
}

func TestKinds(t *testing.T) {
	if diff := cmp.Diff([]string{"greet", "loud"}, greetingKinds().Names()); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	if _, ok := greetingKinds().Lookup("shout"); ok {
		t.Error("Lookup(shout) found a kind")
	}
	greet, ok := greetingKinds().Lookup("greet")
	if !ok || greet.ConfigType() != reflect.TypeFor[greetingConfig]() {
		t.Fatalf("Lookup(greet) = %v, %v", greet.ConfigType(), ok)
	}
	plan, ds := greet.Decode(parseValid(t, "name: Ann"))
	if ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	for range 2 {
		if got, err := plan.Build(t.Context(), "hello"); got != "hello Ann" || err != nil {
			t.Errorf("Build() = %q, %v", got, err)
		}
	}
	want := "### greet\n\nGreets a person.\n\n| field | type | default | description |\n| --- | --- | --- | --- |\n" +
		"| `name` | string, required |  | Name of the person. |\n"
	if diff := cmp.Diff(want, greet.Reference()); diff != "" {
		t.Errorf("Reference() (-want +got):\n%s", diff)
	}
}

func TestKind_Problems(t *testing.T) {
	greet, _ := greetingKinds().Lookup("greet")
	if _, ds := greet.Decode(parseValid(t, "{}")); len(ds) != 1 || ds[0].Rule != "required" {
		t.Errorf("Decode({}) = %v, want the missing name", ds)
	}
	loud, _ := greetingKinds().Lookup("loud")
	plan, ds := loud.Decode(parseValid(t, "hi"))
	if ds != nil {
		t.Fatalf("Decode(hi) = %v", ds)
	}
	if _, err := plan.Build(t.Context(), ""); err == nil || err.Error() != "too loud: hi!" {
		t.Errorf("Build() = %v, want the error of the builder", err)
	}
}
