package store

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

func TestTerms(t *testing.T) {
	tests := []struct{ name, text, index, query string }{
		{"words", "The cat, the CAT-flap: 3x!", "the cat flap 3x", "the cat flap 3x"},
		{"accents", "São João não É co\u0301pia", "sao joao nao e copia", "sao joao nao e copia"},
		{"folding", "Straße ΣΊΣΥΦΟΣ ﬁne", "strasse σισυφοσ fine", "strasse σισυφοσ fine"},
		{"widths", "ＡＢＣ ﾃﾞｰﾀ", "abc デ ー デー タ ータ", "abc デー ータ"},
		{"Chinese", "我的猫。", "我 的 我的 猫 的猫", "我 的 我的 猫 的猫"},
		{"Japanese", "猫はタマ", "猫 は 猫は タ はタ マ タマ", "猫 猫は はタ タマ"},
		{"voicing is not an accent", "がか", "が か がか", "がか"},
		{"Thai keeps vowels", "ที่นี่", "ที่ นี่ ที่นี่", "ที่นี่"},
		{"Korean", "집에", "집 에 집에", "집에"},
		{"one character", "あ!", "あ", "あ"},
		{"mixed scripts", "GoでRPC", "go で rpc", "go で rpc"},
		{"Hindi keeps vowels", "हिन्दी", "हिन्दी", "हिन्दी"},
		{"Arabic and Hebrew points", "مُحَمَّد שָׁלוֹם", "محمد שלום", "محمد שלום"},
		{"invisible", "soft\u00adhyphen zero\u200dwidth \ufeffx", "softhyphen zerowidth x", "softhyphen zerowidth x"},
		{"a mark alone", "\u0e34 \u3099", "", ""},
		{"nothing", " \x00\xff…", "", ""},
		{"long word", strings.Repeat("é", 100), strings.Repeat("e", 64), strings.Repeat("e", 64)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.index, strings.Join(indexTerms(tt.text), " ")); d != "" {
				t.Errorf("%s (-want +got):\n%s", "index", d)
			}
			if d := cmp.Diff(tt.query, strings.Join(queryTerms(tt.text), " ")); d != "" {
				t.Errorf("%s (-want +got):\n%s", "query", d)
			}
		})
	}
}

func TestTermLimit(t *testing.T) {
	var text strings.Builder
	for r := rune(0x4e00); r < 0x9000; r++ {
		text.WriteRune(r)
	}
	if n := len(indexTerms(text.String())); n != maxIndexTerms {
		t.Errorf("%d index terms", n)
	}
	if n := len(queryTerms(text.String())); n != maxQueryTerms {
		t.Errorf("%d query terms", n)
	}
	if got := indexTerms(strings.Repeat(" ", maxTermText-1) + "語語語"); len(got) != 0 {
		t.Errorf("terms over the limit: %q", got)
	}
}

// Whatever the text is, its terms are short, distinct and storable, a query with the text finds it,
// and writing it in other letters changes nothing.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"The cat", "São João", "猫はタマ", "ที่นี่", "집에 가", "\xff\x00", "İıß", "ﷺ", "e\u0301\u0345", "\u1e9e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		index := indexTerms(text)
		seen := map[string]bool{}
		for _, term := range index {
			switch {
			case seen[term]:
				t.Fatalf("%q is there twice", term)
			case term == "", !utf8.ValidString(term), utf8.RuneCountInString(term) > maxTerm, strings.ContainsAny(term, " \x00"):
				t.Fatalf("bad term %q", term)
			}
			seen[term] = true
		}
		if len(index) == maxIndexTerms {
			return
		}
		for _, term := range queryTerms(text) {
			if !seen[term] {
				t.Fatalf("query term %q is not in the index", term)
			}
		}
		if again := indexTerms(foldText(text)); len(text) < maxTermText/64 && !slices.Equal(index, again) {
			t.Fatalf("terms of %q = %q, of its folded form %q", text, index, again)
		}
	})
}

// TestFoldCase: decomposed characters are folded as golang.org/x/text/cases folds them, which
// stored memory terms depend on. It exchanges the cases in Cherokee, so that they never match: here
// both become small letters.
func TestFoldCase(t *testing.T) {
	fold, changed := cases.Fold(), 0
	for r := range rune(unicode.MaxRune + 1) {
		text := string(r)
		if !utf8.ValidRune(r) || isAccent(r) || norm.NFKD.String(text) != text {
			continue
		}
		got, want := foldCase(text), fold.String(text)
		if unicode.Is(unicode.Cherokee, r) {
			want = strings.ToLower(text)
		}
		if got != want {
			t.Errorf("foldCase(%U) = %q, want %q", r, got, want)
		}
		if got != text {
			changed++
		}
	}
	if changed < 600 {
		t.Errorf("%d characters are folded, want at least 600", changed)
	}
}
