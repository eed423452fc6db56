// Package adkjson encodes and decodes JSON in the format of adk-python 2.x: camelCase
// keys, absent instead of null, float seconds, URL-safe base64, no HTML escapes. Keys
// may also be in snake_case when decoding.
//
// Structs follow their json tags. Two hooks add rules for types: Encoder.WriteCustom and
// Decoder.FindField. pkg/session uses them for events and contents.
package adkjson
