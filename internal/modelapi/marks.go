package modelapi

import (
	"slices"

	"google.golang.org/genai"
)

// Keys in a part's metadata. They name the vendor and the model that signed the part, or whose form
// its data has. Gemini marks no parts.
const (
	vendorKey      = "vendor"
	vendorModelKey = "model"
)

// RedactedKey marks a thought whose text the service encrypted.
const RedactedKey = "redacted"

// VendorMetadata returns the metadata for a part that only a vendor's model may get back.
func VendorMetadata(vendor, model string) map[string]any {
	return map[string]any{vendorKey: vendor, vendorModelKey: model}
}

// PartVendor returns the vendor and the model that signed a part, or empty names.
func PartVendor(p *genai.Part) (vendor, model string) {
	vendor, _ = p.PartMetadata[vendorKey].(string)
	model, _ = p.PartMetadata[vendorModelKey].(string)
	return vendor, model
}

// WithoutForeignParts returns the contents for a vendor that rejects others' signatures: it drops
// other vendors' thoughts, and the signatures and metadata on their other parts. Parts without a
// vendor are kept. It does not modify contents; unchanged ones are shared.
func WithoutForeignParts(contents []*genai.Content, vendor string) []*genai.Content {
	isForeign := func(p *genai.Part) bool {
		if p == nil {
			return false
		}
		owner, _ := PartVendor(p)
		return owner != "" && owner != vendor
	}
	own := contents
	for i, c := range contents {
		if c == nil || !slices.ContainsFunc(c.Parts, isForeign) {
			continue
		}
		if &own[0] == &contents[0] {
			own = slices.Clone(contents)
		}
		var parts []*genai.Part
		for _, p := range c.Parts {
			switch {
			case !isForeign(p):
				parts = append(parts, p)
			case !p.Thought:
				bare := *p
				bare.ThoughtSignature, bare.PartMetadata = nil, nil
				parts = append(parts, &bare)
			}
		}
		own[i] = &genai.Content{Role: c.Role, Parts: parts}
	}
	return own
}
