package session

import "fmt"

// A LimitError reports that a part of a session exceeds a size limit. It is an
// [ErrTooLarge] and an [ErrInvalid].
type LimitError struct {
	// Part is the name of the part, such as "state of the user".
	Part string
	// Limit is in bytes.
	Limit int64
	// Hint is an instruction for the user; it may be empty.
	Hint string
}

// Error returns "state of the user exceeds the limit of 4 MiB: " and the hint.
func (e *LimitError) Error() string {
	text := fmt.Sprintf("%s exceeds the limit of %s", e.Part, formatBytes(e.Limit))
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns ErrTooLarge and ErrInvalid.
func (e *LimitError) Unwrap() []error { return []error{ErrTooLarge, ErrInvalid} }

// formatBytes formats a number of bytes in the largest unit that divides it.
func formatBytes(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
