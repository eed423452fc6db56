package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A jsonField is a key in a JSON object and its value: JSON text, a field list, or a value list.
type jsonField struct {
	key   string
	value any
}

// honestBody returns a body with every route's fields. A route ignores other routes' fields.
func honestBody(app, user, sess string) []jsonField {
	content := []jsonField{{"role", `"user"`}, {"parts", []any{
		[]jsonField{{"text", `"hi"`}},
		[]jsonField{{"inlineData", []jsonField{{"mimeType", `"text/plain"`}, {"data", `"aGk="`}}}},
		[]jsonField{{"functionResponse", []jsonField{{"id", `"c"`}, {"name", `"note"`}, {"response", []jsonField{{"ok", "true"}}}}}},
	}}}
	state := []jsonField{{"k", "1"}, {"user:k", `"x"`}, {"temp:k", "null"}, {"deep", []jsonField{{"list", []any{"1", "2.5", "true"}}}}}
	actions := []jsonField{{"stateDelta", state}, {"artifactDelta", []jsonField{{"a.txt", "1"}}}, {"transferToAgent", `"x"`}, {"escalate", "true"}}
	return []jsonField{
		{"appName", quoteJSON(app)},
		{"userId", quoteJSON(user)},
		{"sessionId", quoteJSON(sess)},
		{"newMessage", content},
		{"stateDelta", state},
		{"streaming", "true"},
		{"customMetadata", []jsonField{{"a", "1"}}},
		{"runConfig", []jsonField{{"maxLlmCalls", "3"}, {"streamingMode", `"sse"`}, {"speechConfig", []jsonField{{"languageCode", `"en"`}}}}},
		{"invocationId", `"i"`},
		{"functionCallEventId", `"e"`},
		{"state", state},
		{"events", []any{[]jsonField{{"author", `"user"`}, {"content", content}, {"actions", actions}, {"timestamp", "1.5"}, {"invocationId", `"i"`}}}},
		{"filename", `"a.txt"`},
		{"artifact", []jsonField{{"text", `"x"`}}},
		{"rewindBeforeInvocationId", `"i"`},
		{"eventId", `"e"`},
		{"agent", `"a"`},
		{"text", `"hi"`},
	}
}

func quoteJSON(text string) string { return fmt.Sprintf("%q", text) }

// A jsonMutator writes JSON with errors.
type jsonMutator struct {
	random *rand.Rand
	// odds is n for a 1-in-n chance that a value is replaced; 0 replaces none.
	odds int
	out  strings.Builder
}

// mutateBody returns a body with some invalid values, keys or bytes.
func mutateBody(random *rand.Rand, fields []jsonField) []byte {
	selected := fields[:0:0]
	for _, f := range fields {
		// Omit most fields, so that an error in one does not hide errors in others.
		if random.IntN(3) == 0 || strings.HasSuffix(f.key, "Id") && random.IntN(8) > 0 || f.key == "appName" {
			selected = append(selected, f)
		}
	}
	s := &jsonMutator{random: random, odds: 2 + random.IntN(12)}
	s.writeValue(selected)
	text := []byte(s.out.String() + "\n")
	switch random.IntN(12) {
	case 0:
		text = text[:random.IntN(len(text)+1)]
	case 1:
		for range 1 + random.IntN(4) {
			text[random.IntN(len(text))] = byte(random.IntN(256))
		}
	case 2:
		text = append(text, pickString(random, "{}", "x", "\x00", ",", "]", "\n\n{}", "\ufeff")...)
	case 3:
		text = append([]byte(pickString(random, "\ufeff", "\x00", "//\n", ")]}',\n", "\xff\xfe")), text...)
	}
	return text
}

func pickString(random *rand.Rand, all ...string) string { return all[random.IntN(len(all))] }

func (s *jsonMutator) writeValue(v any) {
	if s.odds > 0 && s.random.IntN(s.odds) == 0 {
		s.out.WriteString(pickString(s.random, badValues()...))
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
			s.writeValue(item)
		}
		s.out.WriteByte(']')
	case []jsonField:
		s.writeObject(v)
	}
}

func (s *jsonMutator) writeObject(fields []jsonField) {
	s.out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.out.WriteByte(',')
		}
		key := f.key
		if s.random.IntN(20) == 0 {
			key = s.mutateKey(key)
		}
		fmt.Fprintf(&s.out, "%q:", key)
		s.writeValue(f.value)
		if s.random.IntN(30) == 0 {
			fmt.Fprintf(&s.out, ",%q:", f.key)
			s.writeValue(f.value)
		}
	}
	s.out.WriteByte('}')
}

// mutateKey returns a similar or an unusual key.
func (s *jsonMutator) mutateKey(key string) string {
	switch s.random.IntN(6) {
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
	return pickString(s.random, "", " ", "\x00", "app:", "temp:", "user:", "a.b", "\u202e"+key, "$ref")
}

// badValues are replacements for a value.
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
