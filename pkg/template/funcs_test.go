package template

import (
	"testing"
)

func TestRedactAddressesAndNumbers(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"e-mail", "write to ann.b+x@mail.example.org, please", "write to [email], please"},
		{"e-mail with other letters", "jürgen@münchen.de", "[email]"},
		{"no e-mail", "a@b me@ @you", "a@b me@ @you"},
		{"card", "4111 1111 1111 1111.", "[number]."},
		{"card without blanks", "x4111111111111111x", "x[number]x"},
		{"phone", "call +1 (555) 010-9999 now", "call [number] now"},
		{"phone with slash", "030/123 45 67-89", "[number]"},
		{"nine digits", "123456789", "[number]"},
		{"eight digits", "order 12345678", "order 12345678"},
		{"numbers apart", "12345, 67890", "12345, 67890"},
		{"date", "on 2026-01-31 10:00", "on 2026-01-31 10:00"},
		{"two of a kind", "a@b.c d@e.f", "[email] [email]"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := redactText(tt.in); got != tt.want {
				t.Errorf("redact(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}
