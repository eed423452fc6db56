package main

import "testing"

func TestADKGo(t *testing.T) { testSide(t, adkGo{}) }

func TestADKGoDatabase(t *testing.T) {
	for setting, number := range map[string]int{"NORMAL": 1, "FULL": 2} {
		c, err := adkGo{}.Open(t.Context(), Setup{Storage: Storage{Dir: t.TempDir(), Synchronous: setting}})
		if err != nil {
			t.Fatalf("Open(%s) = %v", setting, err)
		}
		defer c.Close()
		var synchronous int
		var journal string
		db := c.(*adkChat).db
		if err := db.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("PRAGMA journal_mode").Scan(&journal); err != nil {
			t.Fatal(err)
		}
		if synchronous != number || journal != "wal" {
			t.Errorf("Open(%s): synchronous %d, journal %s, want %d, wal", setting, synchronous, journal, number)
		}
	}
}
