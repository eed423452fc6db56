package eval

import (
	"fmt"
	"strings"
	"testing"
)

// benchTexts returns two English texts of 1000 words that share most words.
func benchTexts() (candidate, reference string) {
	stems := []string{"relational", "condition", "the", "operator", "running", "happy", "of", "electricity", "probabilities", "weather", "Paris", "degrees", "organized", "and", "hopefulness", "answer", "question", "tools", "calling", "is"}
	var a, b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&a, "%s%c ", stems[i%len(stems)], 'a'+rune(i%7))
		fmt.Fprintf(&b, "%s%c, ", stems[(i*7)%len(stems)], 'a'+rune(i%5))
	}
	return a.String(), b.String()
}

// ROUGE-1 of two texts of 1000 words takes less than 300 µs.
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
