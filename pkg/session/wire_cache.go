package session

import "agenthost/pkg/model"

// writeCacheMetadata writes the only part of an event with snake_case keys
// (adk-python models/cache_metadata.py has no aliases). Without a cache it
// consists of a fingerprint and a number of contents.
func (w *writer) writeCacheMetadata(m *model.CacheMetadata) {
	before := w.err
	w.startField("cacheMetadata").openBracket('{')
	w.writeOptionalString("cache_name", m.Name)
	if !m.Expires.IsZero() {
		w.writeTimeField("expire_time", m.Expires)
	}
	w.startField("fingerprint").writeString(m.Fingerprint)
	if m.Used != 0 {
		w.startField("invocations_used").writeInt(int64(m.Used))
	}
	w.startField("contents_count").writeInt(int64(m.Contents))
	if !m.Created.IsZero() {
		w.writeTimeField("created_at", m.Created)
	}
	w.closeBracket('}')
	w.addErrorKey(before, "cacheMetadata")
}

// cacheMetadataField returns the field with a camelCase key. Incomplete
// metadata is decoded as it is: it is not active, and the next response
// replaces it.
func cacheMetadataField(m *model.CacheMetadata, name []byte) any {
	switch string(name) {
	case "cacheName":
		return &m.Name
	case "expireTime":
		return &m.Expires
	case "fingerprint":
		return &m.Fingerprint
	case "invocationsUsed":
		return &m.Used
	case "contentsCount":
		return &m.Contents
	case "createdAt":
		return &m.Created
	default:
		return nil
	}
}
