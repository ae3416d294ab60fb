// Makes a backup of Badger; ../README.md says how.
package main

import (
	"fmt"
	"os"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

func main() {
	os.RemoveAll("db")
	db, err := badger.Open(badger.DefaultOptions("db").WithLogger(nil).WithNumVersionsToKeep(3))
	if err != nil { panic(err) }
	for round := 0; round < 3; round++ {
		err = db.Update(func(txn *badger.Txn) error {
			for i := 0; i < 40; i++ {
				key := []byte(fmt.Sprintf("key%02d", i))
				switch {
				case round == 2 && i%5 == 0:
					if err := txn.Delete(key); err != nil { return err }
				case i == 7:
					e := badger.NewEntry(key, []byte("for ever, nearly")).WithTTL(24 * 365 * 100 * time.Hour).WithMeta(9)
					if err := txn.SetEntry(e); err != nil { return err }
				case i%7 != round:
					if err := txn.Set(key, []byte(fmt.Sprintf("value %d of round %d", i, round))); err != nil { return err }
				}
			}
			return nil
		})
		if err != nil { panic(err) }
	}
	f, _ := os.Create("backup")
	if _, err := db.Backup(f, 0); err != nil { panic(err) }
	f.Close()
	db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		out, _ := os.Create("expected.tsv")
		for it.Rewind(); it.Valid(); it.Next() {
			v, _ := it.Item().ValueCopy(nil)
			fmt.Fprintf(out, "%s\t%s\n", it.Item().Key(), v)
		}
		return out.Close()
	})
	db.Close()
}
