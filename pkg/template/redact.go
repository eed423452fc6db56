package template

import "regexp"

var (
	email      = regexp.MustCompile(`[\pL\pN._%+\-]+@[\pL\pN\-]+(\.[\pL\pN\-]+)+`)
	longNumber = regexp.MustCompile(`\d{4}-\d{2}-\d{2}\b|\+?\(?\d(?:[ .()/\-]{0,2}\d){8,}`)
	isoDate    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// redact replaces e-mail addresses by [email] and long numbers by [number]. A
// long number has nine digits or more, with at most two of blank, dot, hyphen,
// slash and parenthesis between two digits: phone numbers, cards, accounts. A
// date as 2026-01-31 is no number.
func redact(s string) string {
	s = email.ReplaceAllString(s, "[email]")
	return longNumber.ReplaceAllStringFunc(s, func(found string) string {
		if isoDate.MatchString(found) {
			return found
		}
		return "[number]"
	})
}
