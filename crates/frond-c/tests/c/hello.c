/* The example of docs/c-api.md: moves money from one account to another, completely or not at all.
 */
#include <frond.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int fail(const frond_error *error)
{
    fprintf(stderr, "%s\n", error->message);
    return 1;
}

int main(int argc, char **argv)
{
    frond_error error;
    frond_db *db;
    frond_tree *accounts;
    frond_txn *txn;
    frond_buffer value = {0};
    const uint8_t *ada = (const uint8_t *)"ada", *bob = (const uint8_t *)"bob";
    uint64_t balance = 100;

    if (argc != 2 || frond_open(argv[1], NULL, &db, &error) != FROND_OK)
        return fail(&error);
    if (frond_tree_create(db, "accounts", NULL, &accounts, &error) != FROND_OK)
        return fail(&error);
    frond_put(accounts, ada, 3, (const uint8_t *)&balance, sizeof balance, &error);

    if (frond_txn_begin(db, NULL, &txn, &error) != FROND_OK)
        return fail(&error);
    if (frond_txn_get(txn, accounts, ada, 3, FROND_EXCLUSIVE, FROND_WAIT, &value, &error) == FROND_OK &&
        frond_txn_put(txn, accounts, bob, 3, value.data, value.length, &error) == FROND_OK &&
        frond_txn_delete(txn, accounts, ada, 3, &error) == FROND_OK) {
        if (frond_txn_commit(txn, NULL, &error) != FROND_OK)
            return fail(&error);
    } else {
        frond_txn_rollback(txn, NULL);
        return fail(&error);
    }

    if (frond_get(accounts, bob, 3, &value, &error) == FROND_OK) {
        memcpy(&balance, value.data, sizeof balance);
        printf("bob has %" PRIu64 "\n", balance);
    }
    frond_buffer_free(&value);
    frond_tree_free(accounts);
    return frond_close(db, &error) == FROND_OK ? 0 : fail(&error);
}
