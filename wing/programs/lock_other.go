//go:build !unix

package programs

// lockFolder does nothing: no program runs on this system.
func lockFolder(string) error { return nil }

func isAbandoned(string) bool { return false }
