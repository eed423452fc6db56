// Package template implements the two small languages inside YAML: texts with placeholders, and
// expressions. The main types are:
//
//   - A [Text] is a prompt with {key}, {user:key?} and {artifact.name}, rendered
//     from a [Scope] by ADK's rules. [Paths] is the variant for URLs, bodies
//     and scripts, with dotted paths: {args.order_id}.
//   - An [Expr] is a compiled expression, as in when: state.n > 3. An [Env]
//     declares the names that it may use.
//   - An [Error] is a problem in either, with its position.
//
// # Texts
//
// A placeholder matches the regular expression {+[^{}]*}+, names a key or an artifact, and has
// neither a dollar sign nor a backslash before it; everything else is literal text. Rendering is a
// single pass: placeholders in values are not expanded. This package adds two forms to ADK's rules:
// <key?>, the same as {key?}, and {!key}, which prints {key}.
//
// Values print as [String] describes: strings unchanged, nil as the empty string, everything else
// as compact JSON. A missing value is a [*MissingError] unless its placeholder ends in a question
// mark.
//
// # Expressions
//
// The language is that of github.com/expr-lang/expr, with these differences:
//
//	a.b.c                a missing member is nil, and so is any member of nil;
//	                     an out-of-range index is an error
//	not a, a or b, a ?   nil counts as false where a boolean is required
//	a % b                accepts floats without fraction, such as 6.0
//	a + b, a < b, a == b, sum(l), sort(l)
//	                     compute integers exactly, however large, and compare
//	                     numbers by their digits; a number that a float would
//	                     round is an error
//	a ** b, a / b        are integers if a and b are, and the result is one
//	keys values toPairs  are sorted by key
//	string(v)            prints v as a placeholder does
//	fromJSON(s)          keeps the digits of numbers
//	now() timezone()     do not exist; only the variable now, if declared
//	$env, a.method()     do not exist, except the methods of times
//
// and these new functions:
//
//	hash(v)    a stable number from 0 to 2^53-1: FNV-1a of the value's JSON
//	json(v)    compact JSON with sorted keys
//	redact(s)  s with [email] for e-mail addresses, and [number] for numbers of
//	           at least nine digits, such as phone and card numbers, which may
//	           contain spaces, dots, hyphens, slashes and parentheses; dates
//	           such as 2026-01-31 are kept
//
// # Limits
//
// Every evaluation terminates, whatever the expression and the values. It fails with an [*Error]
// after 100 ms, after 262144 loop iterations or equivalent steps, when it builds more than 262144
// list and map elements, a string longer than 64 KiB or more than 4 MiB of strings in total, or
// when its context ends. Evaluations may share a [Budget]. An expression has at most 16 KiB and 500
// syntax nodes.
//
// This package does not depend on sessions or files.
package template
