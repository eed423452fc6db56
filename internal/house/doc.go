// Package house tests the code's rules: packages import lower floors only, files and functions stay
// within limits, names and texts are plain English, and every exported name has a comment.
package house
