package lsp

import (
	"unicode/utf16"
	"unicode/utf8"
)

// An encoding is the unit in which the protocol counts a position's characters: UTF-16 code units
// unless the editor offers UTF-8, which counts bytes.
type encoding string

const (
	utf16Encoding encoding = "utf-16"
	utf8Encoding  encoding = "utf-8"
)

// countUnits returns how many units the first n characters in a line have.
func (e encoding) countUnits(line string, n int) int {
	count := 0
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		count += e.unitsIn(r)
	}
	return count
}

// byteOffset converts an offset in units to bytes.
func (e encoding) byteOffset(line string, count int) int {
	for i, r := range line {
		if count <= 0 {
			return i
		}
		count -= e.unitsIn(r)
	}
	return len(line)
}

func (e encoding) unitsIn(r rune) int {
	if e == utf8Encoding {
		return utf8.RuneLen(r)
	}
	return utf16.RuneLen(r)
}
