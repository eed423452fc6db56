package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxFileName is the maximum length for an escaped id that is not shortened. File systems limit
// names to 255 bytes.
const maxFileName = 180

// EscapeFileName converts an id to a file name. The conversion is injective, also on
// case-insensitive file systems, and no name escapes its folder. Lower case letters, digits, "-",
// "_" and inner dots stay; an upper case letter becomes "+" and the lower case letter; every other
// byte becomes "%" and two hexadecimal digits. A reserved name's first byte is escaped. A name that
// is too long is truncated and gets "~" and a hash as suffix.
func EscapeFileName(id, reserved string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z' && (i > 0 || id != reserved), '0' <= c && c <= '9', c == '-', c == '_', c == '.' && isInnerByte(id, i):
			b.WriteByte(c)
		case 'A' <= c && c <= 'Z':
			b.WriteByte('+')
			b.WriteByte(c - 'A' + 'a')
		default:
			b.WriteByte('%')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
	}
	name := b.String()
	if len(name) <= maxFileName {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return name[:maxFileName/2] + "~" + hex.EncodeToString(sum[:])
}

// isInnerByte reports whether a byte is neither the first nor the last.
func isInnerByte(id string, i int) bool { return i > 0 && i < len(id)-1 }
