"""An app's backend on the client: its users save workouts, and see them in their own boards at once.

STATS_URL is the address of the HTTP service, STATS_REFRESH_JWT_SECRET the secret that it checks tokens with.
Run it: `uvicorn --app-dir docs example_app:app`
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated, Any

import jwt
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from edge.client import AsyncAccount, AsyncClient, Receipt, Reconciled, Refused, Session, Unanswered


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # One client for all users: it shares connections and flights.
    async with AsyncClient(os.environ["STATS_URL"]) as app.state.client:
        yield


app = FastAPI(lifespan=lifespan)


def signed_in(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]
) -> AsyncAccount:
    """Return the calls of the user whose token this is. The app checks it: the client does not."""
    try:
        claims = jwt.decode(
            bearer.credentials,
            os.environ["STATS_REFRESH_JWT_SECRET"],
            algorithms=["HS256"],
            options={"require": ["exp", "sub"]},
        )
    except jwt.PyJWTError as error:
        raise HTTPException(401, "not signed in") from error
    client: AsyncClient = request.app.state.client
    return client.account(claims["sub"], bearer.credentials)


Me = Annotated[AsyncAccount, Depends(signed_in)]


@app.post("/workouts")
async def save_workout(me: Me, workout: dict[str, Any]) -> Receipt:
    """Save a workout. Its success depends on nothing that is computed later."""
    session: Session = {"session_date": workout["day"], "exercises": workout["exercises"]}
    return await me.save(session)


@app.get("/screens")
async def screens(me: Me, generation: int, day: date, exercise_id: str | None = None) -> Reconciled:
    """Show the boards with what the receipt of `generation` saved."""
    return await me.reconcile(generation, day, exercise_id=exercise_id)


@app.exception_handler(Refused)
async def refused(_request: Request, error: Refused) -> JSONResponse:
    return JSONResponse({"detail": error.detail}, error.status)


@app.exception_handler(Unanswered)
async def unanswered(_request: Request, error: Unanswered) -> JSONResponse:
    return JSONResponse({"detail": "try again", "mutation_id": str(error.mutation_id)}, 503)
