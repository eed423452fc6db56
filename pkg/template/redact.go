package template

import "regexp"

var (
	emailPattern      = regexp.MustCompile(`[\pL\pN._%+\-]+@[\pL\pN\-]+(\.[\pL\pN\-]+)+`)
	longNumberPattern = regexp.MustCompile(`\d{4}-\d{2}-\d{2}\b|\+?\(?\d(?:[ .()/\-]{0,2}\d){8,}`)
	isoDatePattern    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// redactText replaces e-mail addresses with [email] and long numbers with
// [number]. A long number, such as a phone, card or account number, has at least
// nine digits, with at most two spaces, dots, hyphens, slashes or parentheses
// between two digits. Dates such as 2026-01-31 are kept.
func redactText(s string) string {
	s = emailPattern.ReplaceAllString(s, "[email]")
	return longNumberPattern.ReplaceAllStringFunc(s, func(found string) string {
		if isoDatePattern.MatchString(found) {
			return found
		}
		return "[number]"
	})
}
