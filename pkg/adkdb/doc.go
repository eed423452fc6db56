// Package adkdb takes the sessions out of the databases of Google's ADKs, and
// puts them into one of ours.
package adkdb
