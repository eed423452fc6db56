package eval

import (
	"fmt"
	"strings"
	"testing"
)

// benchTexts returns two English texts with 1000 words each that share most words.
func benchTexts() (candidate, reference string) {
	stems := []string{"relational", "condition", "the", "operator", "running", "happy", "of", "electricity", "probabilities", "weather", "Paris", "degrees", "organized", "and", "hopefulness", "answer", "question", "tools", "calling", "is"}
	var a, b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&a, "%s%c ", stems[i%len(stems)], 'a'+rune(i%7))
		fmt.Fprintf(&b, "%s%c, ", stems[(i*7)%len(stems)], 'a'+rune(i%5))
	}
	return a.String(), b.String()
}

// FuzzRouge1: the F-measure is between 0 and 1, the same in both directions, and 1 for
// equal texts with words.
func FuzzRouge1(f *testing.F) {
	f.Add("The quick brown fox", "İ ΟΔΟΣ 東京 สวัสดี naïve yyyed")
	f.Fuzz(func(t *testing.T, a, b string) {
		p, r, score := Rouge1(a, b)
		p2, r2, back := Rouge1(b, a)
		if p != r2 || r != p2 || score != back || score < 0 || score > 1 {
			t.Errorf("Rouge1 = %v %v %v, the other way %v %v %v", p, r, score, p2, r2, back)
		}
		if _, _, same := Rouge1(a, a); len(tokenizeText(a)) > 0 && same != 1 {
			t.Errorf("Rouge1(a, a) = %v", same)
		}
	})
}

// ROUGE-1 takes less than 300 µs for two texts with 1000 words each.
func BenchmarkRouge1(b *testing.B) {
	candidate, reference := benchTexts()
	for b.Loop() {
		Rouge1(candidate, reference)
	}
}

func BenchmarkRouge1Unicode(b *testing.B) {
	candidate, reference := benchTexts()
	for b.Loop() {
		Rouge1("é "+candidate, "é "+reference)
	}
}
