package engine

import (
	"context"
	"testing"
)

// Parse finds a database by its URL, so that another process can open it.
func TestParse(t *testing.T) {
	made, drop, err := SQLite().Create(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer drop()
	found, err := Parse(made.URL())
	if err != nil || *found != *made {
		t.Errorf("Parse(%q) = %+v, %v, want %+v", made.URL(), found, err, made)
	}
	for _, url := range []string{"postgres://postgres@127.0.0.1:5432/test", "mysql://root@127.0.0.1:3306/test"} {
		if found, err := Parse(url); err != nil || found.URL() != url {
			t.Errorf("Parse(%q) = %+v, %v", url, found, err)
		}
	}
	if _, err := Parse("oracle://x"); err == nil || err.Error() != `unknown database URL "oracle://x"` {
		t.Errorf("Parse() = %v", err)
	}
}
