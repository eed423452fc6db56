package task

import "testing"

// A user's streams are bounded, and another user's are not counted.
func TestStreamLimit(t *testing.T) {
	tasks := New(nil)
	for range MaxUserStreams {
		if _, err := tasks.OpenStream("u"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tasks.OpenStream("u"); err == nil || err.Error() != "too many open streams" {
		t.Errorf("one stream too many: %v", err)
	}
	release, err := tasks.OpenStream("v")
	if err != nil {
		t.Fatal(err)
	}
	if release(); tasks.streams["v"] != 0 {
		t.Error("a released stream is counted")
	}
}
