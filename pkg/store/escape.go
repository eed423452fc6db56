package store

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// maxFileName is the longest file name that escape makes of an id as it is; the
// limit of file systems is 255 bytes.
const maxFileName = 180

// escapeFileName makes an id a file name. Two ids never have the same one, not even on
// file systems that ignore case, and none is a way out of its folder: lower
// case letters, digits, "-", "_" and inner dots stay, a capital is written as
// "+" and the small letter, every other byte as "%" and two hex digits. A name
// that is reserved has its first byte escaped. What becomes too long is cut,
// and told apart by a hash behind a "~".
func escapeFileName(id, reserved string) string {
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

// isInnerByte says that a byte is neither the first nor the last.
func isInnerByte(id string, i int) bool { return i > 0 && i < len(id)-1 }

// scopeDir is the folder of a session's artifacts, or a user's.
func scopeDir(app, user, id string) string {
	scope := userScope
	if id != "" {
		scope = escapeFileName(id, userScope)
	}
	return path.Join(escapeFileName(app, ""), escapeFileName(user, ""), scope)
}

// versionsDir is the folder of an artifact's versions.
func (at artifactKey) versionsDir() string {
	dir := scopeDir(at.app, at.user, at.session)
	for part := range strings.SplitSeq(at.name, "/") {
		dir = path.Join(dir, escapeFileName(part, versionsName))
	}
	return path.Join(dir, versionsName)
}
