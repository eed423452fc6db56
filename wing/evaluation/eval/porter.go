package eval

import "strings"

// stemWord returns the stem of a lower-case ASCII word by Porter's algorithm with NLTK's
// extensions, as rouge_score uses it.
func stemWord(word string) string {
	if stem, ok := irregularStem(word); ok {
		return stem
	}
	if len(word) <= 2 {
		return word
	}
	w := stemPlural(word)
	w = stemPast(w)
	w = stemY(w)
	w = stemDoubleSuffix(w)
	w = stemSuffix(w, stepThree)
	w = removeSuffix(w)
	return stemE(w)
}

func irregularStem(word string) (string, bool) {
	switch word {
	case "sky", "skies":
		return "sky", true
	case "dying":
		return "die", true
	case "lying":
		return "lie", true
	case "tying":
		return "tie", true
	case "news", "howe", "proceed", "exceed", "succeed", "inning", "outing", "canning":
		return word, true
	case "innings", "outings", "cannings":
		return word[:len(word)-1], true
	}
	return "", false
}

// isConsonantAfter reports whether c is a consonant, after a consonant or a vowel. A y is one
// when it starts a word or follows a vowel.
func isConsonantAfter(c byte, start, consonant bool) bool {
	switch c {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return start || !consonant
	}
	return true
}

// isConsonant reports whether w[i] is a consonant.
func isConsonant(w string, i int) bool {
	if w[i] != 'y' {
		return isConsonantAfter(w[i], false, false)
	}
	consonant := false
	for k := range i + 1 {
		consonant = isConsonantAfter(w[k], k == 0, consonant)
	}
	return consonant
}

// countMeasure returns how often a consonant follows a vowel.
func countMeasure(w string) int {
	m, last := 0, true
	for i := range len(w) {
		consonant := isConsonantAfter(w[i], i == 0, last)
		if consonant && !last {
			m++
		}
		last = consonant
	}
	return m
}

func hasVowel(w string) bool {
	last := true
	for i := range len(w) {
		if last = isConsonantAfter(w[i], i == 0, last); !last {
			return true
		}
	}
	return false
}

// endsShort reports whether the word ends in consonant, vowel, consonant other than w, x and
// y, or consists of a vowel and a consonant.
func endsShort(w string) bool {
	n := len(w)
	if n == 2 {
		return !isConsonant(w, 0) && isConsonant(w, 1)
	}
	return n >= 3 && isConsonant(w, n-3) && !isConsonant(w, n-2) && isConsonant(w, n-1) &&
		w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}

func endsDouble(w string) bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && isConsonant(w, n-1)
}

// cutSuffix is strings.CutSuffix, which is slower for the many suffixes that do not match.
func cutSuffix(w, suffix string) (string, bool) {
	n := len(w) - len(suffix)
	if n < 0 || w[n] != suffix[0] || w[len(w)-1] != suffix[len(suffix)-1] || w[n:] != suffix {
		return w, false
	}
	return w[:n], true
}

// stemPlural is step 1a.
func stemPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) == 4:
		return w[:3]
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"):
		return w
	default:
		return strings.TrimSuffix(w, "s")
	}
}

// stemPast is step 1b.
func stemPast(w string) string {
	if stem, ok := cutSuffix(w, "ied"); ok {
		if len(w) == 4 {
			return stem + "ie"
		}
		return stem + "i"
	}
	if stem, ok := cutSuffix(w, "eed"); ok {
		if countMeasure(stem) > 0 {
			return stem + "ee"
		}
		return w
	}
	stem, ok := cutSuffix(w, "ed")
	if !ok || !hasVowel(stem) {
		if stem, ok = cutSuffix(w, "ing"); !ok || !hasVowel(stem) {
			return w
		}
	}
	return repairStem(stem)
}

// repairStem completes a word without its ed or ing.
func repairStem(w string) string {
	switch last := w[len(w)-1]; {
	case strings.HasSuffix(w, "at"), strings.HasSuffix(w, "bl"), strings.HasSuffix(w, "iz"):
		return w + "e"
	case endsDouble(w):
		if last == 'l' || last == 's' || last == 'z' {
			return w
		}
		return w[:len(w)-1]
	case countMeasure(w) == 1 && endsShort(w):
		return w + "e"
	}
	return w
}

// stemY is step 1c.
func stemY(w string) string {
	if stem, ok := cutSuffix(w, "y"); ok && len(stem) > 1 && isConsonant(stem, len(stem)-1) {
		return stem + "i"
	}
	return w
}

// A suffixRule replaces a suffix.
type suffixRule struct{ suffix, replacement string }

// A suffixTable has a step's rules by the letter before the last one, because most words have
// no such suffix.
type suffixTable ['z' + 1][]suffixRule

func newSuffixTable(rules ...suffixRule) *suffixTable {
	var t suffixTable
	for _, r := range rules {
		letter := r.suffix[len(r.suffix)-2]
		t[letter] = append(t[letter], r)
	}
	return &t
}

// findRule returns the first rule whose suffix w has, and w without the suffix.
func (t *suffixTable) findRule(w string) (rule suffixRule, stem string, ok bool) {
	if len(w) < 2 {
		return rule, w, false
	}
	for _, r := range t[w[len(w)-2]] {
		if stem, ok := cutSuffix(w, r.suffix); ok {
			return r, stem, true
		}
	}
	return rule, w, false
}

var (
	stepTwo = newSuffixTable(
		suffixRule{"ational", "ate"}, suffixRule{"tional", "tion"}, suffixRule{"enci", "ence"}, suffixRule{"anci", "ance"},
		suffixRule{"izer", "ize"}, suffixRule{"bli", "ble"}, suffixRule{"alli", "al"}, suffixRule{"entli", "ent"},
		suffixRule{"eli", "e"}, suffixRule{"ousli", "ous"}, suffixRule{"ization", "ize"}, suffixRule{"ation", "ate"},
		suffixRule{"ator", "ate"}, suffixRule{"alism", "al"}, suffixRule{"iveness", "ive"}, suffixRule{"fulness", "ful"},
		suffixRule{"ousness", "ous"}, suffixRule{"aliti", "al"}, suffixRule{"iviti", "ive"}, suffixRule{"biliti", "ble"},
		suffixRule{"fulli", "ful"},
	)
	stepThree = newSuffixTable(
		suffixRule{"icate", "ic"}, suffixRule{"ative", ""}, suffixRule{"alize", "al"}, suffixRule{"iciti", "ic"},
		suffixRule{"ical", "ic"}, suffixRule{"ful", ""}, suffixRule{"ness", ""},
	)
	stepFour = newSuffixTable(
		suffixRule{suffix: "al"}, suffixRule{suffix: "ance"}, suffixRule{suffix: "ence"}, suffixRule{suffix: "er"},
		suffixRule{suffix: "ic"}, suffixRule{suffix: "able"}, suffixRule{suffix: "ible"}, suffixRule{suffix: "ant"},
		suffixRule{suffix: "ement"}, suffixRule{suffix: "ment"}, suffixRule{suffix: "ent"}, suffixRule{suffix: "ion"},
		suffixRule{suffix: "ou"}, suffixRule{suffix: "ism"}, suffixRule{suffix: "ate"}, suffixRule{suffix: "iti"},
		suffixRule{suffix: "ous"}, suffixRule{suffix: "ive"}, suffixRule{suffix: "ize"},
	)
)

// stemDoubleSuffix is step 2.
func stemDoubleSuffix(w string) string {
	if stem, ok := cutSuffix(w, "alli"); ok && countMeasure(stem) > 0 {
		return stemDoubleSuffix(stem + "al")
	}
	if stem, ok := cutSuffix(w, "logi"); ok {
		if countMeasure(w[:len(w)-3]) > 0 {
			return stem + "log"
		}
		return w
	}
	return stemSuffix(w, stepTwo)
}

// stemSuffix applies a step's rule, if the rest of w has a measure.
func stemSuffix(w string, rules *suffixTable) string {
	if rule, stem, ok := rules.findRule(w); ok && countMeasure(stem) > 0 {
		return stem + rule.replacement
	}
	return w
}

// removeSuffix is step 4.
func removeSuffix(w string) string {
	rule, stem, ok := stepFour.findRule(w)
	if !ok || countMeasure(stem) <= 1 {
		return w
	}
	if rule.suffix == "ion" && !strings.HasSuffix(stem, "s") && !strings.HasSuffix(stem, "t") {
		return w
	}
	return stem
}

// stemE is step 5.
func stemE(w string) string {
	if stem, ok := cutSuffix(w, "e"); ok {
		if m := countMeasure(stem); m > 1 || m == 1 && !endsShort(stem) {
			w = stem
		}
	}
	if strings.HasSuffix(w, "ll") && countMeasure(w[:len(w)-1]) > 1 {
		w = w[:len(w)-1]
	}
	return w
}
