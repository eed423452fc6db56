package template

import "testing"

// A value that is computed from a member is found, wherever the member is in it. A value
// that keeps the member, or replaces it, is not.
func TestFindDerivation(t *testing.T) {
	for _, src := range []string{
		`state["user:n"] + 1`,
		`(state["user:n"] ?? 0) + 1`,
		`(state?.["user:n"] ?? 0) + args.by`,
		`concat(state["user:n"] ?? [], [args.x])`,
		`let n = state["user:n"] ?? 0; n + 1`,
		`let n = state["user:n"] + 1; n`,
		`state["user:n"] == nil ? 1 : state["user:n"] + 1`,
		`args.x > state["user:n"] ? args.x : state["user:n"]`,
		`{"n": state["user:n"], "at": args.x}`,
		`state["user:n"].rest`,
		`filter(state["user:n"], # != args.x)`,
	} {
		if _, ok := FindDerivation(src, "state", "user:n"); !ok {
			t.Errorf("%s computes a new value from the key", src)
		}
	}
	for _, src := range []string{
		`args.name`, `state["user:n"]`, `args.name ?? state["user:n"]`, `state["user:n"] ?? args.name`,
		`args.name != "" ? args.name : state["user:n"]`,
		`state["user:n"] == nil ? args.name : state["user:n"]`,
		`let n = state["user:n"] ?? args.name; n`,
		`state["user:m"] + 1`, `state.n + 1`, `other["user:n"] + 1`, `state[`,
	} {
		if at, ok := FindDerivation(src, "state", "user:n"); ok {
			t.Errorf("%s computes no new value from the key, found at %d", src, at)
		}
	}
	if at, _ := FindDerivation(`"é" == user ? 1 : state["user:n"] + 1`, "state", "user:n"); at != 25 {
		t.Errorf("offset %d, want 25 bytes", at)
	}
}
