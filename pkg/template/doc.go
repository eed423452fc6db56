// Package template is the two small languages inside YAML: texts with
// placeholders, and expressions. Three words are enough:
//
//   - A [Text] is a prompt with {key}, {user:key?} and {artifact.name}, filled
//     from a [Scope] by the rules of ADK. [Paths] is its sister for addresses,
//     bodies and scripts, with dotted paths: {args.order_id}.
//   - An [Expr] is a compiled expression, as in when: state.n > 3. An [Env]
//     declares the names that it may use.
//   - An [Error] has the place of what is wrong with either.
//
// # Texts
//
// A placeholder is what the regular expression {+[^{}]*}+ finds, if the name
// inside is a key or an artifact; all else stays as it is. There is one pass:
// what a value brings is never scanned. To ADK's rules this package adds
// <key?>, the same as {key?}, and {!key}, which prints {key}.
//
// Values print as [String] says: texts as they are, all else as compact JSON,
// nil as nothing. A missing value is a [*MissingError] unless its placeholder
// has a question mark.
//
// # Expressions
//
// The language is that of github.com/expr-lang/expr, with these differences:
//
//	a.b.c                a missing member is nil, and so is any member of nil;
//	                     an element that a list has not is an error
//	not a, a or b, a ?   nil counts as false where true or false is asked for
//	a % b                takes 6.0 as 6
//	keys values toPairs  are in the order of the keys
//	string(v)            prints v as texts do
//	fromJSON(s)          has integers as integers
//	now() timezone()     do not exist; only the variable now, if declared
//	$env, a.method()     do not exist, but for the methods of times
//
// and these new functions:
//
//	hash(v)    a stable number from 0 to 2^53-1: FNV-1a of the value's JSON
//	json(v)    compact JSON with sorted keys
//	redact(s)  s with [email] for e-mail addresses, and [number] for numbers of
//	           nine digits or more, which may have blanks, dots, hyphens,
//	           slashes and parentheses between them, as phones and cards have;
//	           dates such as 2026-01-31 stay
//
// # Limits
//
// An evaluation always ends, whatever expression and values are. It is refused
// with an [*Error] behind 100 ms, 262144 rounds of loops or as much other work,
// as many elements built, one text of 64 KiB or texts of 4 MiB built, or when
// its context ends. Evaluations may share a [Budget]. An expression has at most 16 KiB and 500 parts.
//
// This is a ground floor: it knows neither sessions nor files.
package template
