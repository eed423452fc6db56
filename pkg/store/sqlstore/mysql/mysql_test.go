package mysql

import "testing"

// Engines that speak MySQL's protocol, but lack its locks, are rejected by name.
func TestMySQLEngines(t *testing.T) {
	for _, tt := range []struct{ version, collation, err string }{
		{"8.0.36", "utf8mb4_0900_bin", ""},
		{"10.11.19-MariaDB-0+deb12u1", "utf8mb4_nopad_bin", ""},
		{"5.7.25-TiDB-v5.4.0", "", `TiDB is not supported, the version of the server is "5.7.25-TiDB-v5.4.0"; hint: use MySQL, MariaDB or PostgreSQL`},
		{"8.0.30-Vitess", "", `Vitess is not supported, the version of the server is "8.0.30-Vitess"; hint: use MySQL, MariaDB or PostgreSQL`},
	} {
		got, err := selectCollation(tt.version)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.collation || text != tt.err {
			t.Errorf("%s: %s, %s", tt.version, got, text)
		}
	}
}
