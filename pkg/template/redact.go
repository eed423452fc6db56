package template

import "regexp"

var (
	emailPattern      = regexp.MustCompile(`[\pL\pN._%+\-]+@[\pL\pN\-]+(\.[\pL\pN\-]+)+`)
	longNumberPattern = regexp.MustCompile(`\d{4}-\d{2}-\d{2}\b|\+?\(?\d(?:[ .()/\-]{0,2}\d){8,}`)
	isoDatePattern    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// redactText replaces e-mail addresses by [email] and long numbers by [number]. A
// long number has nine digits or more, with at most two of blank, dot, hyphen,
// slash and parenthesis between two digits: phone numbers, cards, accounts. A
// date as 2026-01-31 is no number.
func redactText(s string) string {
	s = emailPattern.ReplaceAllString(s, "[email]")
	return longNumberPattern.ReplaceAllStringFunc(s, func(found string) string {
		if isoDatePattern.MatchString(found) {
			return found
		}
		return "[number]"
	})
}
