package eval

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// measureResponseMatch is ROUGE-1 over the final texts.
func measureResponseMatch(_ context.Context, in *Input) (*Scores, error) {
	return ScoreTurns(in, func(i int) *float64 {
		_, _, f := Rouge1(textOf(in.Actual[i].FinalResponse), textOf(in.Expected[i].FinalResponse))
		return &f
	}), nil
}

// Rouge1 returns precision, recall and F-measure for a candidate's words: the ROUGE-1 in
// adk-python 2.6 and later. They are 0 if either text has no words.
func Rouge1(candidate, reference string) (precision, recall, f float64) {
	return scoreOverlap(tokenizeText(candidate), tokenizeText(reference))
}

func scoreOverlap(got, want []string) (precision, recall, f float64) {
	counts := make(map[string]int, len(want))
	for _, t := range want {
		counts[t]++
	}
	overlap := 0
	for _, t := range got {
		if n := counts[t]; n > 0 {
			counts[t] = n - 1
			overlap++
		}
	}
	precision = float64(overlap) / float64(max(len(got), 1))
	recall = float64(overlap) / float64(max(len(want), 1))
	if overlap > 0 {
		f = 2 * precision * recall / (precision + recall)
	}
	return precision, recall, f
}

// tokenizeText splits text into words; in scripts without spaces each character is a word.
func tokenizeText(text string) []string {
	t := tokenizer{stem: true}
	t.addText(text)
	return t.tokens
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerFully applies Unicode's full case mapping, as Python does: a final sigma and a dotted
// capital I differ from strings.ToLower.
func lowerFully(s string) string {
	// For all other characters, the simple mapping is the full one.
	if !strings.ContainsAny(s, "\u03a3\u0130") {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

type tokenizer struct {
	stem   bool
	tokens []string
}

func (t *tokenizer) addText(text string) {
	t.tokens = make([]string, 0, min(len(text)/6+1, 4096))
	if isASCII(text) {
		t.addASCII(strings.ToLower(text))
		return
	}
	// Invalid bytes become U+FFFD, a separator.
	t.addScripts(lowerFully(norm.NFKC.String(strings.ToValidUTF8(text, "\uFFFD"))))
}

// addASCII adds the words in a lower-case string. Words with up to three characters are not
// stemmed.
func (t *tokenizer) addASCII(s string) {
	for i := 0; i < len(s); {
		if !isWordByte(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && isWordByte(s[i]) {
			i++
		}
		word := s[start:i]
		if t.stem && len(word) > 3 {
			word = stemWord(word)
		}
		if word != "" {
			t.tokens = append(t.tokens, word)
		}
	}
}

func isWordByte(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// addScripts adds the words in any script.
func (t *tokenizer) addScripts(s string) {
	start := 0 // of the current word
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
			// Most characters in most texts: without a look at the tables.
			if !isWordByte(byte(r)) {
				t.addWord(s[start:i])
				start = i + 1
			}
		case isIdeograph(r):
			t.addWord(s[start:i])
			start = i + utf8.RuneLen(r)
			t.tokens = append(t.tokens, s[i:start])
		case isClusterScript(r):
			if !unicode.Is(unicode.M, r) {
				t.addWord(s[start:i])
				start = i
			}
		case !isWordRune(r):
			t.addWord(s[start:i])
			start = i + utf8.RuneLen(r)
		}
	}
	t.addWord(s[start:])
}

func (t *tokenizer) addWord(word string) {
	switch {
	case word == "":
	case isASCII(word):
		t.addASCII(word)
	default:
		t.tokens = append(t.tokens, word)
	}
}

// isIdeograph reports Han, Hiragana, Katakana and Hangul, as far as ADK counts them.
func isIdeograph(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3040 <= r && r <= 0x30ff || 0xac00 <= r && r <= 0xd7af
}

// isClusterScript reports Thai, Lao, Khmer and Myanmar.
func isClusterScript(r rune) bool {
	return 0x0e00 <= r && r <= 0x0eff || 0x1780 <= r && r <= 0x17ff || 0x1000 <= r && r <= 0x109f
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r)
}
