package store

import "testing"

func TestNumberParameters(t *testing.T) {
	if got := numberParameters("a = ? AND b IN (?, ?)"); got != "a = $1 AND b IN ($2, $3)" {
		t.Error(got)
	}
}

// Looking at a database changes no byte of it, and writing is refused.
func TestReadOnlyWritesNothing(t *testing.T) {
	url := sqliteFile(t)
	create(t, openStore(t, url, nil), alice, nil)
	r, err := OpenReadOnly(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, text := range []string{"DELETE FROM sessions", "CREATE TABLE x (y)"} {
		if _, err := r.tx.ExecContext(t.Context(), text); err == nil {
			t.Errorf("%s was carried out", text)
		}
	}
}
