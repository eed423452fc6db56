package loader_test

import (
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// A model's fingerprint changes with its provider, name, address and settings, and with the models
// that it calls; not with its key, price or limits.
func TestFingerprintModels(t *testing.T) {
	fingerprint := func(models, env string) string {
		t.Helper()
		dir := testenv.Files(t, "shop", map[string][]byte{
			"root_agent.yaml": []byte("name: clerk\ninstruction: Sell.\nmodel: a\n"), "app.yaml": []byte("models:\n" + models), "s.yaml": []byte("- text: Hi.\n"),
		})
		l := loader.New(testenv.Kinds(), &loader.Options{Env: func(name string) (string, bool) {
			value, ok := strings.CutPrefix(env, name+"=")
			return value, ok
		}})
		return l.FingerprintModels(t.Context(), dir, []string{"a", "unknown"})["a"]
	}
	const base = "  a: {provider: openai_compatible, model: m, base_url: http://localhost:1/v1}\n"
	want := fingerprint(base, "")
	if len(want) != 64 {
		t.Fatalf("fingerprint = %q, want a hash", want)
	}
	for _, same := range []string{
		base,
		"  a: {provider: openai_compatible, model: m, base_url: http://localhost:1/v1, price: {input: 1, output: 1}}\n",
	} {
		if got := fingerprint(same, ""); got != want {
			t.Errorf("fingerprint of %s differs", same)
		}
	}
	for _, other := range []string{
		"  a: {provider: openai_compatible, model: n, base_url: http://localhost:1/v1}\n",
		"  a: {provider: openai_compatible, model: m, base_url: http://localhost:2/v1}\n",
		"  a: {provider: openai_compatible, model: m, base_url: http://localhost:1/v1, thoughts: drop}\n",
		"  a: {provider: openai_compatible, model: m, base_url: http://localhost:1/v1, fallback: [b]}\n  b: {provider: openai, model: m}\n",
	} {
		if got := fingerprint(other, ""); got == want || got == "" {
			t.Errorf("fingerprint of %s = %q, want another one", other, got)
		}
	}
	const secret = "  a: {provider: openai_compatible, model: m, base_url: http://localhost:1/v1, api_key: \"${secret:KEY}\"}\n"
	if one, two := fingerprint(secret, "KEY=one"), fingerprint(secret, "KEY=two"); one != two || one == "" {
		t.Errorf("fingerprints with two keys = %q, %q, want the same", one, two)
	}
	if one, two := fingerprint("  a: {provider: openai, model: m}\n", ""), fingerprint("  a: {provider: openai, model: m}\n", "OPENAI_BASE_URL=http://localhost:9"); one == two {
		t.Error("the address in the environment does not change the fingerprint")
	}
	if got := fingerprint("  a: {provider: scripted, script: s.yaml}\n", ""); got != "" {
		t.Errorf("fingerprint of a scripted model = %q, want none", got)
	}
}
