package sqlstore

import (
	"testing"
)

func TestNumberParameters(t *testing.T) {
	if got := numberParameters("a = ? AND b IN (?, ?)"); got != "a = $1 AND b IN ($2, $3)" {
		t.Error(got)
	}
}

// Looking at a database changes nothing in it, and writing is refused.
func TestReadOnlyWritesNothing(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			createSession(t, s, alice, nil)
			r, err := allEngines().OpenReadOnly(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := r.tx.ExecContext(t.Context(), "DELETE FROM sessions"); err == nil {
				t.Error("it was carried out")
			}
			getSession(t, s, alice, nil)
		})
	}
}

// A view shows one moment: what is written meanwhile is not in it.
func TestReadOnlySnapshot(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			r, err := allEngines().OpenReadOnly(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			count := func() (n int) {
				if err := r.scanFirst(t.Context(), "SELECT count(*) FROM sessions s", &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := count()
			createSession(t, s, alice, nil)
			if n := count(); n != before {
				t.Errorf("%d sessions came into view", n)
			}
		})
	}
}
