// Package house holds the tests that keep the house in its shape: which
// package may import which, how long files and functions may grow, and that
// every exported name says what it promises.
package house
