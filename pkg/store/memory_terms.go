package store

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Text becomes terms in three steps:
//
//	fold    decompose, drop the marks that people omit, fold case, compose again
//	split   at everything that is neither a letter nor a number
//	pair    runs of scripts without spaces: each pair of adjacent characters, and single ones
//
// Chinese, Japanese, Korean and Southeast Asian text has no spaces that separate words, and a
// dictionary for each language would be larger than this program. Pairs find the words of two
// characters, which most are, and longer ones by their parts. The index has single characters, too; a
// query only those that may be a word, such as one Han character, since most match too much.
//
// Marks decide case by case (isAccent): "ü" is found as "u", but a Thai vowel or a Japanese voicing mark
// makes another word. A mark without a character before it is dropped.
//
// Invariant: what the query drops, the index keeps, and never the other way round. Text beyond the
// limits below is not found; it is stored.

// Limits for one text, and for one term in characters.
const (
	maxTermText   = 64 << 10
	maxIndexTerms = 4096
	maxQueryTerms = 64
	maxTerm       = 64
)

// indexTerms returns the distinct index terms in text.
func indexTerms(text string) []string {
	return (&tokenizer{maxTerms: maxIndexTerms}).splitText(text)
}

// queryTerms returns a query's distinct terms. They are a subset of the same text's index terms.
func queryTerms(text string) []string {
	return (&tokenizer{maxTerms: maxQueryTerms, query: true}).splitText(text)
}

// foldText normalizes text: it removes accents, case, character widths and
// ligatures.
func foldText(text string) string {
	if len(text) > maxTermText {
		text = text[:maxTermText]
	}
	text = norm.NFKD.String(strings.ToValidUTF8(text, " "))
	text = strings.Map(func(r rune) rune {
		if isAccent(r) {
			return -1
		}
		return r
	}, text)
	return norm.NFC.String(foldCase(text))
}

// foldCase returns the full case folding of text that has been decomposed.
func foldCase(text string) string {
	return strings.ReplaceAll(strings.Map(foldRune, text), "ß", "ss")
}

func foldRune(r rune) rune {
	if r == 'ı' { // the capital letter is that of i
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// isAccent reports marks that people omit when they type: accents, Hebrew and Arabic points, and
// invisible ones. Marks in other scripts, such as Thai vowels and kana voicing, distinguish words.
func isAccent(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x640, r == 0x200c, r == 0x200d, r == 0x2060, r == 0xfeff:
		return true
	}
	for _, span := range [][2]rune{
		{0x300, 0x36f},
		{0x591, 0x5c7},
		{0x610, 0x61a},
		{0x64b, 0x65f},
		{0x1ab0, 0x1aff},
		{0x1dc0, 0x1dff},
		{0x20d0, 0x20ff},
		{0xfe00, 0xfe2f},
	} {
		if r >= span[0] && r <= span[1] {
			return unicode.Is(unicode.M, r)
		}
	}
	return false
}

// A tokenizer splits text into terms: words where spaces separate them, else
// pairs of adjacent characters.
type tokenizer struct {
	maxTerms int
	query    bool
	terms    []string
	seen     map[string]bool

	word  strings.Builder
	units []string // the characters, with their marks, of a run without spaces
}

func (s *tokenizer) splitText(text string) []string {
	s.seen = map[string]bool{}
	for _, r := range foldText(text) {
		if len(s.terms) >= s.maxTerms {
			return s.terms[:s.maxTerms]
		}
		s.addRune(r)
	}
	s.endWord()
	s.endRun()
	return s.terms[:min(len(s.terms), s.maxTerms)]
}

func (s *tokenizer) addRune(r rune) {
	switch {
	case unicode.Is(unicode.M, r): // belongs to the preceding character; ignored without one
		if n := len(s.units); n > 0 {
			s.units[n-1] += string(r)
		} else if s.word.Len() > 0 {
			s.word.WriteRune(r)
		}
	case isUnspacedScript(r):
		s.endWord()
		s.units = append(s.units, string(r))
	case unicode.IsLetter(r), unicode.IsNumber(r):
		s.endRun()
		s.word.WriteRune(r)
	default:
		s.endWord()
		s.endRun()
	}
}

// isUnspacedScript reports scripts without spaces between words, and Korean,
// where the text between spaces is more than a word.
func isUnspacedScript(r rune) bool {
	const lengthMark = 'ー' // of no script by itself
	return r > 0xe00 && (r == lengthMark || unicode.In(r,
		unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Yi))
}

func (s *tokenizer) endWord() {
	if s.word.Len() > 0 {
		s.addTerm(s.word.String())
		s.word.Reset()
	}
}

// endRun adds a run's pairs and single characters: all to the index, and to a query those that are
// isolated or may be words.
func (s *tokenizer) endRun() {
	for i, unit := range s.units {
		first, _ := utf8.DecodeRuneInString(unit)
		if !s.query || len(s.units) == 1 || unicode.Is(unicode.Han, first) {
			s.addTerm(unit)
		}
		if i > 0 {
			s.addTerm(s.units[i-1] + unit)
		}
	}
	s.units = s.units[:0]
}

func (s *tokenizer) addTerm(term string) {
	if len(term) > maxTerm && utf8.RuneCountInString(term) > maxTerm {
		term = string([]rune(term)[:maxTerm])
	}
	if !s.seen[term] {
		s.seen[term] = true
		s.terms = append(s.terms, term)
	}
}
