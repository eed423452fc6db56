package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A member is a key of a JSON object and its value, which is a text of JSON, a list
// of members, or a list of values.
type member struct {
	key   string
	value any
}

// honestBody has every field that some route reads: what one does not know, it
// ignores.
func honestBody(app, user, sess string) []member {
	content := []member{{"role", `"user"`}, {"parts", []any{
		[]member{{"text", `"hi"`}},
		[]member{{"inlineData", []member{{"mimeType", `"text/plain"`}, {"data", `"aGk="`}}}},
		[]member{{"functionResponse", []member{{"id", `"c"`}, {"name", `"note"`}, {"response", []member{{"ok", "true"}}}}}},
	}}}
	state := []member{{"k", "1"}, {"user:k", `"x"`}, {"temp:k", "null"}, {"deep", []member{{"list", []any{"1", "2.5", "true"}}}}}
	actions := []member{{"stateDelta", state}, {"artifactDelta", []member{{"a.txt", "1"}}}, {"transferToAgent", `"x"`}, {"escalate", "true"}}
	return []member{
		{"appName", quoted(app)},
		{"userId", quoted(user)},
		{"sessionId", quoted(sess)},
		{"newMessage", content},
		{"stateDelta", state},
		{"streaming", "true"},
		{"customMetadata", []member{{"a", "1"}}},
		{"runConfig", []member{{"maxLlmCalls", "3"}, {"streamingMode", `"sse"`}, {"speechConfig", []member{{"languageCode", `"en"`}}}}},
		{"invocationId", `"i"`},
		{"functionCallEventId", `"e"`},
		{"state", state},
		{"events", []any{[]member{{"author", `"user"`}, {"content", content}, {"actions", actions}, {"timestamp", "1.5"}, {"invocationId", `"i"`}}}},
		{"filename", `"a.txt"`},
		{"artifact", []member{{"text", `"x"`}}},
		{"rewindBeforeInvocationId", `"i"`},
		{"eventId", `"e"`},
		{"agent", `"a"`},
		{"text", `"hi"`},
	}
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// A spoiler writes JSON and spoils some of it.
type spoiler struct {
	dice *rand.Rand
	// odds are in how many values one is spoilt; 0 spoils none.
	odds int
	out  strings.Builder
}

// spoilt is a body with some of its values, keys or bytes spoilt.
func spoilt(dice *rand.Rand, fields []member) []byte {
	kept := fields[:0:0]
	for _, f := range fields {
		// Most fields are left out, so that what is wrong with one is not hidden
		// behind what is wrong with another.
		if dice.IntN(3) == 0 || strings.HasSuffix(f.key, "Id") && dice.IntN(8) > 0 || f.key == "appName" {
			kept = append(kept, f)
		}
	}
	s := &spoiler{dice: dice, odds: 2 + dice.IntN(12)}
	s.write(kept)
	text := []byte(s.out.String() + "\n")
	switch dice.IntN(12) {
	case 0:
		text = text[:dice.IntN(len(text)+1)]
	case 1:
		for range 1 + dice.IntN(4) {
			text[dice.IntN(len(text))] = byte(dice.IntN(256))
		}
	case 2:
		text = append(text, oneOf(dice, "{}", "x", "\x00", ",", "]", "\n\n{}", "\ufeff")...)
	case 3:
		text = append([]byte(oneOf(dice, "\ufeff", "\x00", "//\n", ")]}',\n", "\xff\xfe")), text...)
	}
	return text
}

func oneOf(dice *rand.Rand, all ...string) string { return all[dice.IntN(len(all))] }

func (s *spoiler) write(v any) {
	if s.odds > 0 && s.dice.IntN(s.odds) == 0 {
		s.out.WriteString(oneOf(s.dice, badValues()...))
		return
	}
	switch v := v.(type) {
	case string:
		s.out.WriteString(v)
	case []any:
		s.out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				s.out.WriteByte(',')
			}
			s.write(item)
		}
		s.out.WriteByte(']')
	case []member:
		s.object(v)
	}
}

func (s *spoiler) object(fields []member) {
	s.out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.out.WriteByte(',')
		}
		key := f.key
		if s.dice.IntN(20) == 0 {
			key = s.misspelt(key)
		}
		fmt.Fprintf(&s.out, "%q:", key)
		s.write(f.value)
		if s.dice.IntN(30) == 0 {
			fmt.Fprintf(&s.out, ",%q:", f.key)
			s.write(f.value)
		}
	}
	s.out.WriteByte('}')
}

// misspelt is a key that is nearly another, or none.
func (s *spoiler) misspelt(key string) string {
	switch s.dice.IntN(6) {
	case 0:
		return strings.ToUpper(key)
	case 1:
		return key + "s"
	case 2:
		return key[1:]
	case 3:
		return strings.Repeat(key, 200)
	case 4:
		return "__proto__"
	}
	return oneOf(s.dice, "", " ", "\x00", "app:", "temp:", "user:", "a.b", "\u202e"+key, "$ref")
}

// badValues are what stands in the place of a value.
func badValues() []string {
	return []string{
		"null", "true", "0", "-0", "1e400", "-1e-400", "9007199254740993", "1.5", "-1", "123456789012345678901234567890", strings.Repeat("9", 5000),
		`""`, `" "`, `"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\xfe\"", `"\u202e\u200b"`, `"` + strings.Repeat("a", 70_000) + `"`, `"` + strings.Repeat("\u00e9", 300) + `"`,
		`"../../x"`, `"/x"`, `"C:\\x"`, `"a/b/versions/1"`, `"user:a.txt"`, `"{k} {artifact.a.txt} {x"`, `"${env:HOME}"`, `"'; DROP TABLE x; --"`, `"%00%s%n"`,
		"[]", "{}", "[[]]", `{"":{}}`, `[{"a":[{}]},null]`, `{"$ref":"#"}`, `{"error":"x","code":1}`, `{"text":1}`, `{"parts":[]}`, `{"parts":[null]}`, `{"parts":[{}]}`, `{"parts":{}}`,
		strings.Repeat("[", 20_000), strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900),
		"[" + strings.Repeat("0,", 20_000) + "0]", "undefined", "NaN", "Infinity", "'x'", "0x10", "01", ".5", "1.", "+1", "tru", "\"", "",
	}
}
