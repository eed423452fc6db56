// Package adkdb takes the sessions out of the databases of Google's ADKs, or out
// of another one of ours, and puts them into one of ours.
package adkdb
